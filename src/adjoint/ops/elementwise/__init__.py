"""Ops that work on each element by itself.

Modules, in reading order:

- `bitwise`: Logic on the bits of integers, and on truths.
- `comparison`: Truths about elements: they carry no gradient.
- `frexp_bitcast`: The bits of elements, read as elements of another type.
- `select`: Choosing between values, and changing their type.
- `clamp`: Elements limited to a range of two numbers, in one op where it runs eagerly.
- `transcendental`: Exponentials, logarithms, circular and hyperbolic functions, element by element.
- `arithmetic`: Sums, products, powers and roundings, element by element.
- `complex`: Complex numbers and their parts.
- `float_functions`: Further functions of single elements: areas, distances, signs, next neighbours, and steps.
"""
