"""Expressions and gradients of graphs, for users.

Modules, in reading order:

- `builder`: Tensors that stand for expressions: within `symbolic()` ops write equations, which run when a tensor is
  read.
- `graph_gradient`: The gradient of a graph, as more equations of it: by the rules and the walk that eager backward
  has.
"""
