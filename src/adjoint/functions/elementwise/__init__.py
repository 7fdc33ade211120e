"""Functions of each element by itself, and activations.

Modules, in reading order:

- `activation`: Activation functions and the softmax family.
- `allclose`: Comparison of tensors: element by element within a tolerance, as a whole, or exactly.
- `pointwise`: Functions of single elements.
- `dtype_conversion`: Other element types, and values written as a whole.
- `float_functions`: Further functions of single elements.
- `gated_activation`: Activation functions that let through, shrink or gate: soft and hard ones, with learned and
  computed slopes.
- `complex`: Complex numbers: made of their parts, and taken apart again.
- `relu_variants`: Rectifiers under the names that they have beside the modules' functions: in place, and with slopes
  at random.
- `special`: Special functions, `adjoint.special`: those of single elements that have names beyond mathematics'
  everyday ones.
- `inplace_activation`: Activation functions and dropouts as `torch.nn.functional` spells them: in place, by an
  underscore or an argument.
- `scaled_sums`: `addcmul`, `addcdiv` and `lerp`: sums with a product, a quotient or a share of others.
"""
