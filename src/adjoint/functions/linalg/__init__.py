"""Linear algebra: products, factorizations, solutions, spectra, norms.

Modules, in reading order:

- `checks`: Checks of the arguments of linear algebra: types, shapes, and the values of `info`.
- `distance`: Distances between tensors and between rows.
- `einsum`: Einstein's summation: products summed over repeated letters.
- `matmul`: Matrix products, and the layer made of one.
- `factorizations`: Factors of stacks of matrices: Cholesky's, Q and R, and products of reflectors.
- `lu_ldl`: Factors made by elimination, P L U and L D Lᵀ, and solutions by them.
- `solve`: Inverses, solutions of equations, and least squares, of stacks of matrices and of tensors taken as
  matrices.
- `eig_svd`: Eigenvalues and singular values of stacks of matrices.
- `norms_det`: Numbers of matrices and vectors: norms, condition, rank, determinants.
- `norms`: Norms under the names that stand at the top of the library, which differ from those of `adjoint.linalg`.
- `products`: Further products: sums of matrix products, of outer products, over chosen dimensions.
- `low_rank`: The largest singular values, and the extreme eigenvalues, of large matrices, by products with few
  vectors.
- `matrix_functions`: Products of vectors and matrices, powers and exponentials.
- `top_level_names`: Linear algebra under the names that stand at the top of the library, which differ from those of
  `adjoint.linalg`.
"""
