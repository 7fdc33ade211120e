"""Ops that draw random numbers.

Modules, in reading order:

- `draws`: Draws from a generator: ops with an effect, so that a compiled step draws the same numbers in the same
  order.
- `sampling`: Draws of further distributions, and the gradients of gamma and Dirichlet numbers by their parameters.
"""
