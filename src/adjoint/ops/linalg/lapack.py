"""NumPy's decompositions and solvers, with BLAS held to one thread: they call it many times, for blocks of a matrix.

Each call of a BLAS with several threads waits for all of them. Beside two busy programs on two processors, a system of
100 equations took 300 times as long with two threads as with one. On a machine without other work two threads gain
something from some 500 rows on; results that do not depend on the number of threads are worth more.
"""

from __future__ import annotations

import numpy as np

from adjoint.core.runtime.threads import one_blas_thread
from adjoint.core.typing import Function, Operand

# Of each operand. BLAS itself keeps to one thread in all that is done with these: a product of such a matrix and a
# vector is far below its limit, which is 96², and so are a factor's updates of the rest of the matrix.
MAX_UNTHREADED_ELEMENTS = 32 * 32

__all__ = [
    "cholesky",
    "det",
    "eig",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "qr",
    "slogdet",
    "solve",
    "svd",
]


def _with_one_blas_thread(function: Function) -> Function:
    """Return a function that calls this one with BLAS held to one thread, unless its operands are small.

    To hold it takes 2 µs. The functions for small matrices take some 5 µs, of which NumPy's checks are the most.
    """

    def call(*operands: Operand, **options: object) -> Operand:
        for x in operands:
            if type(x) is np.ndarray and x.size > MAX_UNTHREADED_ELEMENTS:
                with one_blas_thread:
                    return function(*operands, **options)
        return function(*operands, **options)

    return call


cholesky = _with_one_blas_thread(np.linalg.cholesky)
det = _with_one_blas_thread(np.linalg.det)
eig = _with_one_blas_thread(np.linalg.eig)
eigh = _with_one_blas_thread(np.linalg.eigh)
eigvalsh = _with_one_blas_thread(np.linalg.eigvalsh)
inv = _with_one_blas_thread(np.linalg.inv)
lstsq = _with_one_blas_thread(np.linalg.lstsq)
qr = _with_one_blas_thread(np.linalg.qr)
slogdet = _with_one_blas_thread(np.linalg.slogdet)
solve = _with_one_blas_thread(np.linalg.solve)
svd = _with_one_blas_thread(np.linalg.svd)
