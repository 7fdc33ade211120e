"""NumPy's products, linear algebra and Fourier transforms, under NumPy's signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adjoint.core.typing import Function, Operand
from adjoint.functions.linalg import eig_svd, matrix_functions, norms_det, products
from adjoint.functions.linalg import einsum as contraction
from adjoint.functions.linalg import solve as linalg_solving
from adjoint.functions.shape import diag_tril
from adjoint.functions.shape import shape as shapes
from adjoint.functions.signal import fft
from adjoint.interop.array_api import fft as transforms
from adjoint.interop.array_api import linalg, linear
from adjoint.interop.numpy.arrangement import as_common_tensors, register
from adjoint.interop.numpy.ufuncs import tensor_of
from adjoint.ops.elementwise import arithmetic

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

TABLE: dict[str, Function] = {
    "vdot": lambda a, b, /: linear.vecdot(*map(shapes.ravel, as_common_tensors([a, b]))),
    "outer": lambda a, b: linalg.outer(*map(shapes.ravel, as_common_tensors([a, b]))),
    "kron": lambda a, b: products.kron(*as_common_tensors([a, b])),
    "cross": lambda a, b, *, axis=-1: linalg.cross(*as_common_tensors([a, b]), axis=axis),
    "trace": lambda a, offset=0, axis1=0, axis2=1: diag_tril.diagonal(a, offset, axis1, axis2).sum(-1),
    "vander": lambda x, N=None, increasing=False: products.vander(x, N, increasing),
}
LINALG: dict[str, Function] = {
    "outer": TABLE["outer"],
    "cross": TABLE["cross"],
    "trace": linalg.trace,
    "diagonal": linalg.diagonal,
    "matmul": linalg.matmul,
    "matrix_transpose": linalg.matrix_transpose,
    "svdvals": linalg.svdvals,
    "vecdot": linalg.vecdot,
    "eigh": lambda a, UPLO="L": eig_svd.eigh(a, UPLO),
    "eigvalsh": lambda a, UPLO="L": eig_svd.eigvalsh(a, UPLO),
    "eig": lambda a: eig_svd.eig(a),
    "eigvals": lambda a: eig_svd.eigvals(a),
    "qr": lambda a, mode="reduced": linalg.qr(a, mode=mode),
    "pinv": lambda a, rcond=None, *, rtol=None: linalg_solving.pinv(a, rtol=rcond if rtol is None else rtol),
    "cond": lambda x, p=None: norms_det.cond(x, p),
    "cholesky": lambda a, /, *, upper=False: linalg.cholesky(a, upper=upper),
    "solve": lambda a, b: linalg.solve(*as_common_tensors([a, b])),
    "inv": lambda a: linalg.inv(a),
    "det": lambda a: linalg.det(a),
    "slogdet": lambda a: linalg.slogdet(a),
    "matrix_power": lambda a, n: linalg.matrix_power(a, n),
    "multi_dot": lambda arrays: matrix_functions.multi_dot(as_common_tensors(arrays)),
    "matrix_norm": linalg.matrix_norm,
    "vector_norm": linalg.vector_norm,
    "tensorinv": lambda a, ind=2: linalg_solving.tensorinv(a, ind),
}


@register(TABLE)
def dot(a: Operand, b: Operand) -> Any:
    x, y = as_common_tensors([a, b])
    if not x.ndim or not y.ndim:
        return arithmetic.mul(x, y)
    if y.ndim <= 2:
        return linear.matmul(x, y)
    return linear.tensordot(x, y, axes=([x.ndim - 1], [y.ndim - 2]))


@register(TABLE)
def inner(a: Operand, b: Operand, /) -> Any:
    x, y = as_common_tensors([a, b])
    if not x.ndim or not y.ndim:
        return arithmetic.mul(x, y)
    return linear.tensordot(x, y, axes=([x.ndim - 1], [y.ndim - 1]))


@register(TABLE, LINALG)
def tensordot(a: Operand, b: Operand, axes: Any = 2) -> Any:
    x, y = as_common_tensors([a, b])
    pairs = axes if isinstance(axes, int) else tuple([d] if isinstance(d, int) else list(d) for d in axes)
    return linear.tensordot(x, y, axes=pairs)


@register(TABLE)
def einsum(subscripts: str, *operands: Any, optimize: object = False) -> Any:
    return contraction.einsum(subscripts, *as_common_tensors(operands))


@register(LINALG)
def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    if ord is None and axis is None and keepdims:
        return norms_det.vector_norm(x, 2, None, True)
    return norms_det.norm(x, ord, axis, keepdims)


@register(LINALG)
def svd(a: Operand, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    return linalg.svd(a, full_matrices=full_matrices) if compute_uv else linalg.svdvals(a)


@register(LINALG)
def matrix_rank(A: Operand, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    return norms_det.matrix_rank(A, hermitian=hermitian, atol=tol, rtol=0.0 if tol is not None else rtol)


@register(LINALG)
def tensorsolve(a: Operand, b: Operand, axes: Any = None) -> Any:
    x, y = as_common_tensors([a, b])
    return linalg_solving.tensorsolve(x, y, axes)


def _wrap_fft(transform: Function) -> Function:
    return lambda a, n=None, axis=-1, norm=None: transform(tensor_of(a), n, axis, norm)


def _wrap_fftn(transform: Function, default_axes: tuple[int, int] | None) -> Function:
    return lambda a, s=None, axes=default_axes, norm=None: transform(tensor_of(a), s, axes, norm)


FFT: dict[str, Function] = {
    **{name: _wrap_fft(getattr(fft, name)) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{name: _wrap_fftn(getattr(fft, name), None) for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    **{name: _wrap_fftn(getattr(fft, name), (-2, -1)) for name in ("fft2", "ifft2", "rfft2", "irfft2")},
    "fftshift": lambda x, axes=None: transforms.fftshift(x, axes=axes),
    "ifftshift": lambda x, axes=None: transforms.ifftshift(x, axes=axes),
}
