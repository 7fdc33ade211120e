"""NumPy's decompositions and solvers, with BLAS held to one thread: they call it many times, for blocks of a matrix.

Each call of a BLAS with several threads waits for all of them. Beside two busy programs on two processors, a system of
100 equations took 300 times as long with two threads as with one. On a machine without other work two threads gain
something from some 500 rows on; results that do not depend on the number of threads are worth more.
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from adjoint.core.runtime.threads import one_blas_thread
from adjoint.core.typing import Array, Function, Operand

try:  # what `np.linalg` calls itself: its checks and conversions take up to twice the time of a small matrix
    from numpy.linalg import _umath_linalg

    _drivers: Operand = _umath_linalg
except ImportError:  # it is not NumPy's public interface
    _drivers = None

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


_qr: Function = np.linalg.qr
_svd: Function = np.linalg.svd


def _can_call_driver(x: Array, *names: str) -> bool:
    return x.ndim == 2 and x.dtype.char in "fd" and x.size > 0 and all(map(partial(hasattr, _drivers), names))


def _raise_no_convergence(error: str, flag: int) -> None:
    raise np.linalg.LinAlgError("no convergence")


def _factor_qr(x: Array, mode: str = "reduced") -> Operand:
    """Return what `np.linalg.qr` does."""
    if mode != "reduced" or not _can_call_driver(x, "qr_r_raw", "qr_reduced"):
        return _qr(x, mode)
    a = x.astype(np.float64)
    tau = _drivers.qr_r_raw(a, signature="d->d")
    q = _drivers.qr_reduced(a, tau, signature="dd->d")
    r = np.where(_upper_mask(q.shape[1], x.shape[1]), a[: q.shape[1]], 0.0)
    return q.astype(x.dtype, copy=False), r.astype(x.dtype, copy=False)


@lru_cache(64)
def _upper_mask(rows: int, columns: int) -> Array:
    return ~np.tri(rows, columns, -1, np.bool_)  # `triu` would make it anew for each matrix


def _factor_eigh(x: Array) -> Operand:
    """Return what `np.linalg.eigh` does, of the lower triangle."""
    if not _can_call_driver(x, "eigh_lo") or x.shape[0] != x.shape[1]:
        return np.linalg.eigh(x)
    with np.errstate(call=_raise_no_convergence, invalid="call", over="ignore", divide="ignore", under="ignore"):
        values, vectors = _drivers.eigh_lo(x, signature="d->dd")
    return values.astype(x.dtype, copy=False), vectors.astype(x.dtype, copy=False)


def _factor_svd(x: Array, full_matrices: bool = True, compute_uv: bool = True) -> Operand:
    """Return what `np.linalg.svd` does."""
    if not compute_uv or not _can_call_driver(x, "svd_f", "svd_s"):
        return _svd(x, full_matrices, compute_uv)
    driver = _drivers.svd_f if full_matrices else _drivers.svd_s
    with np.errstate(call=_raise_no_convergence, invalid="call", over="ignore", divide="ignore", under="ignore"):
        parts = driver(x, signature="d->ddd")
    return tuple([part.astype(x.dtype, copy=False) for part in parts])


cholesky = _with_one_blas_thread(np.linalg.cholesky)
det = _with_one_blas_thread(np.linalg.det)
eig = _with_one_blas_thread(np.linalg.eig)
eigh = _with_one_blas_thread(_factor_eigh)
eigvalsh = _with_one_blas_thread(np.linalg.eigvalsh)
inv = _with_one_blas_thread(np.linalg.inv)
lstsq = _with_one_blas_thread(np.linalg.lstsq)
qr = _with_one_blas_thread(_factor_qr)
slogdet = _with_one_blas_thread(np.linalg.slogdet)
solve = _with_one_blas_thread(np.linalg.solve)
svd = _with_one_blas_thread(_factor_svd)
