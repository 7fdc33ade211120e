"""The engine: one walk over the recorded graph, from a result back to the leaves.

Modules, in reading order:

- `reference`: Reverse mode in its plainest form: the reference that the engine is tested against.
- `complex_grads`: What a gradient rule gives where numbers are complex.
- `error_notes`: An error in a backward pass is told with the node that ran and the user's line that recorded it.
- `graph_task`: What has arrived where during one backward pass: gradients add up without touching what is not ours.
- `last_pass`: The backward pass that ended last: when, and from where it started.
- `accumulate_grad`: The end of a backward pass: gradients come to rest in `.grad`, all of them or none, or go to the
  caller.
- `saved_values`: What a node saved, and what else its gradient rules ask for by name.
- `where_masks`: Where `where` chose the other branch there is no gradient: not 0, which an infinite slope would turn
  into NaN.
- `node_call`: One node of the backward walk: from the gradient of its outputs to those of its inputs.
- `engine`: The backward walk: each node runs once, after all that used its output.
"""
