"""`torch.autograd.functional`: products with Jacobians and Hessians of a function.

Modules, in reading order:

- `inputs`: What the functions of `autograd.functional` take and give: tensors or tuples of them, checked and
  completed.
- `jacobian`: Whole Jacobians and Hessians, a row at a time, all rows at once, or by columns in forward mode.
- `api`: Derivatives of functions of tensors: products of a vector and a Jacobian or Hessian, and these whole.
"""
