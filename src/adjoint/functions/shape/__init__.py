"""Functions that change shapes, join and split.

Modules, in reading order:

- `shape`: Other shapes and orders for the same elements.
- `view_dtype`: `view` with another type: the same bits as other numbers.
- `as_strided`: Views at strides of one's own, and tensors that become views of themselves in place.
- `join`: Tensors joined along a dimension, an existing or a new one.
- `split`: Tensors split along a dimension: into views, or into tensors that may be written in place.
- `diag_tril`: Diagonals and triangles of matrices: taken, made, and their positions.
- `flip_roll`: Elements reversed, rolled and rotated along dimensions.
- `meshgrid_combinations`: Grids, products and combinations of vectors.
- `repeat`: Tensors repeated: whole, along each dimension, or element by element.
"""
