"""Functions that change shapes, join and split.

Modules, in reading order:

- `shape`: Other shapes and orders for the same elements.
- `view_dtype`: `view` with another type: the same bits as other numbers.
- `as_strided`: Views at strides of one's own, and tensors that become views of themselves in place.
- `join`: Tensors joined, split and repeated.
- `rearrange`: Elements in other places: diagonals, rotations, grids, blocks and products of sets.
- `split`: Tensors taken apart at given places: as views, or as tensors that may be written in place.
"""
