"""NumPy's products, linear algebra and Fourier transforms, under NumPy's signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.functions.linalg import eig_svd, matrix_functions, norms_det, products
from adjoint.functions.linalg import einsum as contraction
from adjoint.functions.linalg import solve as linalg_solving
from adjoint.functions.shape import shape as shapes
from adjoint.functions.shape.as_strided import diagonal as _diagonal
from adjoint.functions.signal import fft
from adjoint.interop.array_api import fft as transforms
from adjoint.interop.array_api import linalg, linear
from adjoint.interop.numpy.arrangement import as_common_tensors
from adjoint.interop.numpy.ufuncs import tensor_of
from adjoint.ops.elementwise import arithmetic

TABLE: dict[str, Callable[..., Any]] = {}
LINALG: dict[str, Callable[..., Any]] = {}
FFT: dict[str, Callable[..., Any]] = {}


def _register(*tables: dict[str, Callable[..., Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Note a function as the counterpart of NumPy's of the same name."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        for table in tables:
            table[function.__name__.strip("_")] = function
        return function

    return note


@_register(TABLE)
def dot(a: Any, b: Any) -> Any:
    x, y = as_common_tensors([a, b])
    if not x.ndim or not y.ndim:
        return arithmetic.mul(x, y)
    if y.ndim <= 2:
        return linear.matmul(x, y)
    return linear.tensordot(x, y, axes=([x.ndim - 1], [y.ndim - 2]))


@_register(TABLE)
def vdot(a: Any, b: Any, /) -> Any:
    return linear.vecdot(*(shapes.ravel(x) for x in as_common_tensors([a, b])))


@_register(TABLE)
def inner(a: Any, b: Any, /) -> Any:
    x, y = as_common_tensors([a, b])
    if not x.ndim or not y.ndim:
        return arithmetic.mul(x, y)
    return linear.tensordot(x, y, axes=([x.ndim - 1], [y.ndim - 1]))


@_register(TABLE, LINALG)
def outer(a: Any, b: Any) -> Any:
    return linalg.outer(*(shapes.ravel(x) for x in as_common_tensors([a, b])))


@_register(TABLE, LINALG)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = as_common_tensors([a, b])
    pairs = axes if isinstance(axes, int) else tuple([d] if isinstance(d, int) else list(d) for d in axes)
    return linear.tensordot(x, y, axes=pairs)


@_register(TABLE)
def kron(a: Any, b: Any) -> Any:
    return products.kron(*as_common_tensors([a, b]))


@_register(TABLE)
def cross(a: Any, b: Any, *, axis: int = -1) -> Any:
    return linalg.cross(*as_common_tensors([a, b]), axis=axis)


@_register(TABLE)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    found: Any = _diagonal(a, offset, axis1, axis2)
    return found.sum(-1)


@_register(TABLE)
def einsum(subscripts: str, *operands: Any, optimize: Any = False) -> Any:
    return contraction.einsum(subscripts, *as_common_tensors(operands))


@_register(TABLE)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    return products.vander(x, N, increasing)


@_register(LINALG)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord is None and axis is None and keepdims:
        return norms_det.vector_norm(x, 2, None, True)
    return norms_det.norm(x, ord, axis, keepdims)


@_register(LINALG)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    return linalg.svd(a, full_matrices=full_matrices) if compute_uv else linalg.svdvals(a)


@_register(LINALG)
def eigh(a: Any, UPLO: str = "L") -> Any:
    return eig_svd.eigh(a, UPLO)


@_register(LINALG)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    return eig_svd.eigvalsh(a, UPLO)


@_register(LINALG)
def eig(a: Any) -> Any:
    return eig_svd.eig(a)


@_register(LINALG)
def eigvals(a: Any) -> Any:
    return eig_svd.eigvals(a)


@_register(LINALG)
def qr(a: Any, mode: str = "reduced") -> Any:
    return linalg.qr(a, mode=mode)


@_register(LINALG)
def pinv(a: Any, rcond: Any = None, *, rtol: Any = None) -> Any:
    return linalg_solving.pinv(a, rtol=rcond if rtol is None else rtol)


@_register(LINALG)
def cond(x: Any, p: Any = None) -> Any:
    return norms_det.cond(x, p)


@_register(LINALG)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    return linalg.cholesky(a, upper=upper)


@_register(LINALG)
def solve(a: Any, b: Any) -> Any:
    return linalg.solve(*as_common_tensors([a, b]))


@_register(LINALG)
def inv(a: Any) -> Any:
    return linalg.inv(a)


@_register(LINALG)
def det(a: Any) -> Any:
    return linalg.det(a)


@_register(LINALG)
def slogdet(a: Any) -> Any:
    return linalg.slogdet(a)


@_register(LINALG)
def matrix_power(a: Any, n: int) -> Any:
    return linalg.matrix_power(a, n)


@_register(LINALG)
def multi_dot(arrays: Any) -> Any:
    return matrix_functions.multi_dot(as_common_tensors(arrays))


@_register(LINALG)
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    return norms_det.matrix_rank(A, hermitian=hermitian, atol=tol, rtol=0.0 if tol is not None else rtol)


@_register(LINALG)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return linalg.matrix_norm(x, keepdims=keepdims, ord=ord)


@_register(LINALG)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


@_register(LINALG)
def tensorinv(a: Any, ind: int = 2) -> Any:
    return linalg_solving.tensorinv(a, ind)


@_register(LINALG)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    x, y = as_common_tensors([a, b])
    return linalg_solving.tensorsolve(x, y, axes)


for _name in ("diagonal", "matmul", "matrix_transpose", "svdvals", "vecdot"):
    LINALG[_name] = getattr(linalg, _name)
LINALG["cross"] = cross
LINALG["trace"] = linalg.trace


def _wrap_fft(transform: Any) -> Callable[..., Any]:
    def call(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
        return transform(tensor_of(a), n, axis, norm)

    return call


def _wrap_fftn(transform: Any, last: Any) -> Callable[..., Any]:
    def call(a: Any, s: Any = None, axes: Any = last, norm: str | None = None) -> Any:
        return transform(tensor_of(a), s, axes, norm)

    return call


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    FFT[_name] = _wrap_fft(getattr(fft, _name))
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    FFT[_name] = _wrap_fftn(getattr(fft, _name), None)
for _name in ("fft2", "ifft2", "rfft2", "irfft2"):
    FFT[_name] = _wrap_fftn(getattr(fft, _name), (-2, -1))


@_register(FFT)
def fftshift(x: Any, axes: Any = None) -> Any:
    return transforms.fftshift(x, axes=axes)


@_register(FFT)
def ifftshift(x: Any, axes: Any = None) -> Any:
    return transforms.ifftshift(x, axes=axes)
