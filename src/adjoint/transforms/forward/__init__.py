"""Forward mode: dual numbers, and the rules that push tangents forward.

Modules, in reading order:

- `dual_saved`: Saved values that carry tangents, so that a backward pass within a level of forward mode is itself
  differentiated.
- `jvp_rules`: The tangent of an op's output, from those of its inputs: derived from what the op declares, so that no
  op lacks one.
- `tangent_layout`: Memory layout of tangents: the same as the tensor's, so that a view of one is a view of the other.
- `custom_function`: Forward mode through a Function: the tangents of its outputs, as its `jvp` has them.
- `dual_level`: Forward mode: tensors that carry tangents, one for each open level, and op calls that push them on.
- `forward_ad`: Dual numbers: x + t ε, a tensor with its tangent.
"""
