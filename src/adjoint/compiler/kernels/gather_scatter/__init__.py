"""Reading and writing at positions which are data.

Modules, in reading order:

- `index_space`: The map from points of a grid to elements of an array, in which positions along some dimensions are
  data.
- `gather`: Kernels that read at positions which are data: `index` (an embedding's rows), `gather`.
- `scatter`: Kernels that write at positions which are data: gradients of embeddings and gathers, index assignment,
  folds.
- `lowering`: Reading and writing at positions which are data, and joining arrays, as kernels of a graph.
"""
