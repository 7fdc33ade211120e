"""Linear algebra: products, factorizations, solutions and spectra.

Modules, in reading order:

- `fft`: Discrete Fourier transforms over several dimensions: of complex numbers, and between real ones and half a
  spectrum.
- `matmul`: Products of matrices, and stacks of them.
- `matrices`: Shared by the ops of matrices: transposition, specs of results, and the error for singular matrices.
- `packed_factors`: Results of several parts, for ops of matrices: the flattened parts side by side in one array (…,
  n).
- `triangular`: Triangular systems of equations, by substitution in blocks.
- `lu`: The factors P L U of stacks of matrices, by elimination with row exchanges.
- `inverse_det_solve`: Inverses, determinants and solutions of stacks of matrices.
- `lstsq`: Pseudoinverses and least squares of stacks of matrices.
- `matrix_exp`: The exponential of square matrices.
- `cholesky_qr`: Cholesky's factor, and Q and R, of stacks of matrices.
- `ldl`: The factors L D Lᵀ of symmetric matrices, by elimination with diagonal pivots.
- `eig_svd`: Eigenvalues and singular values of stacks of matrices, and their vectors.
- `lobpcg`: A few extreme eigenvalues of large symmetric matrices, and their vectors, by products with few vectors.
- `blas_products`: Products of matrices by NumPy's BLAS: small ones on the thread that calls, parts of large ones on
  several.
- `lapack`: NumPy's decompositions and solvers, with BLAS held to one thread: they call it many times, for blocks of a
  matrix.
- `sparse_product`: Products of a sparse matrix, given by the row, column and value of each entry: with a dense
  matrix, and sampled.
- `householder`: Householder's factorization of one matrix, by the LAPACK that lies in NumPy's BLAS, in the type of
  the matrix.
"""
