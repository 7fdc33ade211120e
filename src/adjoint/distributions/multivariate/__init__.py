"""Distributions of vectors and matrices.

Modules, in reading order:

- `cholesky_forms`: Quadratic forms and determinants of matrices given by their triangular factors, or as a diagonal
  and a factor.
- `multivariate_normal`: The normal distribution of vectors: of any covariance, or of one that is a diagonal and a
  product of low rank.
- `wishart`: Distributions of matrices: Wishart's of covariances, and that of Cholesky factors of correlations (LKJ).
"""
