"""Gradients held against finite differences.

Modules, in reading order:

- `numerical`: The derivative as differences: what the outputs of a function do when an input is moved a little.
- `analytical`: The derivative as the rules give it: rows of the Jacobian by backward passes, columns by forward mode.
- `grad_properties`: What a gradient owes besides its values: zero for zero, nothing for nothing, the same alone and
  in a batch.
- `jacobians`: Two Jacobians of one function compared: by differences and by its rules, whole or along one random
  direction.
- `gradcheck`: `gradcheck`: the gradients that rules give, against differences of the function's values.
"""
