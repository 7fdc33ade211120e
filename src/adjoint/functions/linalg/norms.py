"""Norms under the names that stand at the top of the library, which differ from those of `adjoint.linalg`."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DtypeLike
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.dim_args import Dims
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public
from adjoint.functions.reduction.reduce import cast_floats, power_norm

__all__ = ["frobenius_norm", "norm", "norm_except_dim", "nuclear_norm"]


@public()
def norm(
    input: Tensor, p: Tensor | float | str = "fro", dim: Dims = None, keepdim: bool = False, *, dtype: DtypeLike = None
) -> Tensor:
    """Return the norm (Σ|x|ᵖ)^(1/p) of all elements, or of those along `dim`.

    The gradient at 0 is taken as 0.

    Args:
        input: floating or complex tensor.
        p: order, a number. ±inf gives the extreme magnitude, 0 the count of elements that are not 0, "fro" means 2,
            "nuc" gives the sum of a matrix's singular values. Default: "fro".
        dim: dimension or tuple of dimensions. Default: None, all of them.
        keepdim: True to keep the reduced dimensions with size 1. Default: False.
        dtype: type to which the elements are converted first. Default: that of `input`.

    Raises: RuntimeError for integers.

    Example:
        >>> x = ad.tensor([[3.0, 4.0], [0.0, 5.0]])
        >>> ad.norm(x, dim=1), ad.norm(x, p=1)
        (tensor([5., 5.]), tensor(12.))
    """
    if p == "nuc":
        return _sum_singular_values(input, dim, keepdim, dtype)
    return power_norm(input, p, dim, keepdim, dtype=dtype)


@in_float32
def _sum_singular_values(input: Tensor, dim: Dims, keepdim: bool, dtype: DtypeLike) -> Tensor:
    return nuclear_norm(cast_floats(input, dtype), dim, keepdim)


@with_out
def nuclear_norm(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """Return Σ of the singular values, over two dimensions."""
    from adjoint.functions.linalg import norms_det  # decompositions, which few programs need

    if isinstance(dim, bool):
        return norms_det.matrix_norm(input, "nuc", (-2, -1), dim)
    return norms_det.matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)


@with_out
def frobenius_norm(input: Tensor, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """Return √Σ x² over at most two dimensions. Raises RuntimeError for more."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dims)} dimensions instead.")
    return power_norm(input, 2, dims or None, keepdim)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Return (Σ |x|ᵖ)^(1/p) over all dimensions but `dim`, which are kept as 1; over all if `dim` is -1.

    Raises: IndexError for a number.
    """
    if dim == -1:
        return power_norm(v, pow)
    if not v.ndim:
        raise IndexError(f"norm_except_dim: Dimension specified as {dim} but tensor has no dimensions")
    return power_norm(v, pow, tuple(d for d in range(v.ndim) if d != dim), True) if v.ndim > 1 else abs(v)
