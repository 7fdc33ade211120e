"""Distributions of vectors and matrices.

Modules, in reading order:

- `cholesky_forms`: Quadratic forms and determinants of matrices in factored form: Cholesky, or diagonal plus low
  rank.
- `multivariate_normal`: Multivariate normal distributions, with a full or a low-rank plus diagonal covariance.
- `wishart`: The Wishart distribution of covariances, and the LKJ distribution of Cholesky factors of correlations.
"""
