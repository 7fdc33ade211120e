"""Ops that read or write at computed positions, and those that sort.

Modules, in reading order:

- `indexing`: Indexing with tensors: gather, and its transpose, scatter-add.
- `nonzero`: Positions of the elements that are not zero, and histograms of one or several dimensions.
- `sort`: Positions in sorted order: searches, ranks, the leading elements.
- `scatter`: Scatter along one dimension, and scatter with a reduction.
- `row_positions`: The places that indices name, counted in rows of the array in memory, and folds of rows into those
  places.
"""
