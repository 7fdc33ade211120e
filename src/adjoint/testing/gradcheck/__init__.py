"""Gradients held against finite differences.

Modules, in reading order:

- `numerical`: Jacobians by central differences.
- `analytical`: Jacobians by gradient rules: rows by backward passes, columns by forward mode.
- `grad_properties`: Checks of gradients besides their values: zero for zero, None for None, the same alone and in a
  batch.
- `jacobians`: Two Jacobians of one function compared: by differences and by its rules, whole or along one random
  direction.
- `gradcheck`: `gradcheck`: the gradients that rules give, against differences of the function's values.
"""
