"""Discrete distributions.

Modules, in reading order:

- `bernoulli`: One trial: the Bernoulli distribution, and the geometric one of the number of failures before a
  success.
- `binomial`: Counts: the binomial, negative binomial and Poisson distributions.
- `categorical`: One of K categories: by its number, as a one-hot vector, or counted over several draws.
"""
