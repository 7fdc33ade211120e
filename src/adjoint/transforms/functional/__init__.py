"""`torch.autograd.functional`: products with Jacobians and Hessians of a function.

Modules, in reading order:

- `inputs`: Inputs and results of the functions of `autograd.functional`: checks, strict mode, structure.
- `jacobian`: Jacobians and Hessians: a row at a time, all rows at once, or by columns in forward mode.
- `api`: Derivatives of functions of tensors: products of a vector and a Jacobian or Hessian, and these whole.
"""
