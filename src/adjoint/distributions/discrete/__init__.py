"""Discrete distributions.

Modules, in reading order:

- `bernoulli`: The Bernoulli and geometric distributions.
- `binomial`: The binomial, negative binomial and Poisson distributions.
- `categorical`: The categorical, one-hot and multinomial distributions.
"""
