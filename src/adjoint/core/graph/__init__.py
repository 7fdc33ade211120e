"""The recorded graph: nodes, hooks, and the lines of user code that made them.

Modules, in reading order:

- `tensor_like`: The protocol of a tensor that the graph and storage use.
- `hooks`: Functions that users attach to tensors, nodes and modules, and the handles that remove them.
- `source_location`: The user's line: the innermost frame outside the library.
- `node`: The recorded graph: one node for each application of an op, one leaf for each tensor that wants a gradient.
- `grad_dtype`: The type of a leaf's gradient: the tensor's own unless the user asked for another, or for any.
- `iterative_dealloc`: Deallocation of a graph without recursion, where Python's own way may overflow the stack.
- `not_implemented`: The node in place of a gradient rule that an op does not have: it raises an error when backward
  reaches it.
- `object_allocation`: Functions that make objects without attributes: the tensors and nodes of op calls, of which
  each call makes some.
"""
