"""Ops that read or write at computed positions, and those that sort.

Modules, in reading order:

- `indexing`: Reading and adding at positions which are themselves data.
- `nonzero`: Where elements are: positions of those that are not zero, and counts in bins of several dimensions.
- `sort`: What follows from order or equality: places in sorted rows, ranks, membership, counts, the most frequent
  element.
- `scatter`: Writing at positions along one dimension, and folding what meets there.
- `take_along_row`: The element of each row that an index tells: what extremes along the last dimension are, in one
  op.
"""
