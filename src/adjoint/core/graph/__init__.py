"""The recorded graph: nodes, hooks, and the lines of user code that made them.

Modules, in reading order:

- `tensor_like`: What the graph, and memory, know of a tensor: the class itself is built from them, and stands above.
- `hooks`: Functions that users attach to tensors, nodes and modules, and the handles that take them off again.
- `source_location`: The user's line: the innermost frame outside the library.
- `node`: The recorded graph: one node for each application of an op, one leaf for each tensor that wants a gradient.
- `grad_dtype`: The type in which a leaf takes its gradient: the tensor's own unless the user asked for another, or
  for any.
- `iterative_dealloc`: Freeing a graph without recursion where Python's own way is not enough.
- `not_implemented`: What stands in a graph where a gradient is wanted that no rule gives: it complains when the walk
  comes by.
"""
