"""Ops that work on each element by itself.

Modules, in reading order:

- `bitwise`: Bitwise logic of integers and bools, and shifts.
- `comparison`: Comparisons and logic of elements: the results are bool and carry no gradient.
- `select`: Choosing between values, limiting them, and changing their type.
- `transcendental`: Exponentials, logarithms, circular and hyperbolic functions, element by element.
- `arithmetic`: Sums, products, powers and roundings, element by element.
- `complex`: Complex numbers and their parts.
- `float_functions`: Further functions of single elements: distances, signs, neighbours, steps, exponents and
  mantissas.
- `scaled_sums`: Sums with a product, a quotient or a share of others: each one op, and one kernel, where ops would be
  three or four.
"""
