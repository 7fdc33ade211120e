"""Functions that change shapes, join and split.

Modules, in reading order:

- `shape`: Other shapes and orders for the same elements.
- `as_strided`: Views at any strides, and methods that turn a tensor into a view of itself.
- `join`: Tensors joined along a dimension, an existing or a new one.
- `split`: Tensors split along a dimension: into views, or into tensors that may be written in place.
- `diag_tril`: Diagonals and triangles of matrices: taken, made, and their positions.
- `flip_roll`: Elements reversed, rolled and rotated along dimensions.
- `meshgrid_combinations`: Grids, products and combinations of vectors.
- `repeat`: Tensors repeated: whole, along each dimension, or element by element.
"""
