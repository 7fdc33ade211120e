"""`adjoint.linalg`: linear algebra on stacks of matrices."""

from adjoint.functions.linalg.eig_svd import eig, eigh, eigvals, eigvalsh, svd, svdvals
from adjoint.functions.linalg.factorizations import cholesky, cholesky_ex, householder_product, qr
from adjoint.functions.linalg.lu_ldl import ldl_factor, ldl_factor_ex, ldl_solve, lu, lu_factor, lu_factor_ex, lu_solve
from adjoint.functions.linalg.matmul import matmul
from adjoint.functions.linalg.matrix_functions import cross, diagonal, matrix_exp, multi_dot, vander, vecdot
from adjoint.functions.linalg.norms_det import cond, det, matrix_norm, matrix_rank, norm, slogdet, vector_norm
from adjoint.functions.linalg.products import matrix_power
from adjoint.functions.linalg.solve import (
    inv,
    inv_ex,
    lstsq,
    pinv,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from adjoint.ops.linalg.matrices import LinAlgError

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh",
    "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq", "lu", "lu_factor",
    "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot",
    "norm", "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv",
    "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip
