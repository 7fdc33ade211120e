"""Ops that draw random numbers.

Modules, in reading order:

- `draws`: Draws from a generator: ops with an effect, so that a compiled step draws the same numbers in the same
  order.
- `sampling`: Draws of the less usual distributions, and how gamma and Dirichlet numbers follow their parameters.
"""
