"""The engine: one walk over the recorded graph, from a result back to the leaves.

Modules, in reading order:

- `reference`: Reverse mode in its plainest form: the reference that the engine is tested against.
- `error_notes`: Notes on passes: the node at which one raised, and the pass that ended last.
- `graph_task`: The state of one backward pass: the gradients that have arrived, and how they add up.
- `accumulate_grad`: The end of a backward pass: gradients are added to `.grad`, all of them or none, or go to the
  caller.
- `saved_values`: The saved values of a node, and the other arguments of its gradient rules.
- `where_masks`: Masks for the branch that `where` did not choose: its gradient stays 0 even where a slope is
  infinite.
- `node_call`: One node of the backward walk: from the gradient of its outputs to those of its inputs.
- `masked_node`: A node whose gradient carries a mask of `where`, in a pass on bare arrays: the masks are computed
  when a rule asks.
- `engine`: The backward walk: each node runs once, after all that used its output.
- `recorded_node`: One node of a backward pass that is itself recorded, for a second derivative: its rules run as ops
  on tensors.
"""
