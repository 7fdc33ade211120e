"""Tensors and ops, from which everything else is built.

Modules, in reading order:

- `runtime`: The state of a thread and of the process: modes, threads, forks, imports, and small tools.
- `dtype`: Element types, their limits, and devices.
- `graph`: The recorded graph: nodes, hooks, and the lines of user code that made them.
- `op`: An op: its value, its gradient rules, and what a call of one does.
- `tensor`: A tensor: its memory, its views, its versions, and how it prints.
- `random`: Random numbers: generators with PyTorch's streams, and the distributions drawn from them.
- `typing`: Names for the types in signatures.
- `viewer`: The viewer of graphs: a document of boxes, edges, lines and steps becomes one HTML page that needs nothing
  else.
"""
