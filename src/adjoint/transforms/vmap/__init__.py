"""`vmap`: batched tensors, and the rules by which ops take them.

Modules, in reading order:

- `batching_rules`: Batching rules: an op for all examples of a batch at once, by family or by op, and a loop where
  there is none.
- `convolution`: Batches of convolutions: examples are further rows of the batch that there is already, or further
  groups.
- `indexing`: Batches of positions: `index`, its transpose and its assignment, where x, the index arrays or both are
  batched.
- `random`: Draws within `vmap`: none, the same for all examples, or other ones for each.
- `batched_tensor`: A level of `vmap`: tensors stand for all examples of a batch at once, and ops are done for all of
  them.
- `custom_function`: A `Function` within `vmap`: the level around sees one Function, whose forward and backward are
  the mapped ones.
- `vmap`: `vmap`: a function of one example becomes one of a batch, without a loop.
"""

from __future__ import annotations

# Base first, then what registers rules with it.
import adjoint.transforms.vmap.batching_rules
import adjoint.transforms.vmap.convolution
import adjoint.transforms.vmap.indexing
import adjoint.transforms.vmap.random
