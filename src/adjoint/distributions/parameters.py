"""Parameters of distributions: broadcasting, and probabilities and log-odds computed from one another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Self, TypeVar, overload

from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.dtype.dtype import get_default_dtype
from adjoint.core.dtype.dtype_info import finfo
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike
from adjoint.functions.creation import creation
from adjoint.functions.shape.shape import broadcast_tensors

Value = TypeVar("Value")

EULER_GAMMA = 0.57721566490153286061  # -Γ'(1)


class lazy_property(Generic[Value]):
    """A property that is computed on first access and then stored in the instance."""

    def __init__(self, wrapped: Callable[[Any], Value]) -> None:
        self.wrapped = wrapped
        self.__name__ = wrapped.__name__
        self.__doc__ = wrapped.__doc__

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Value: ...
    def __get__(self, instance: object, owner: type | None = None) -> Value | Self:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.__name__, value)
        return value


def formula(doc: str, value: Callable[[Any], Any]) -> Any:
    """Return a property: `doc` is its formula in mathematical notation, `value` computes it from the instance."""
    return property(value, doc=doc)


def broadcast_all(*values: Tensor | float) -> tuple[Tensor, ...]:
    """Return the values as tensors of one shape; numbers take the dtype of the first tensor, or the default one.

    Raises ValueError for anything but numbers and tensors.
    """
    if not all(isinstance(v, Tensor | int | float) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    kind = next((v.dtype for v in values if isinstance(v, Tensor)), None) or get_default_dtype()
    tensors = [v if isinstance(v, Tensor) else creation.tensor(v, dtype=kind) for v in values]
    if all(v.array.shape == tensors[0].array.shape for v in tensors):
        return tuple(tensors)
    return tuple(broadcast_tensors(*tensors))


def name_of_given(probs: Tensor | float | None, logits: Tensor | float | None) -> str:
    """Return the name of the given one. Raises ValueError unless it is one."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return "logits" if probs is None else "probs"


def clamp_probs(probs: Tensor) -> Tensor:
    """min(max(p, ε), 1 - ε)."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """softmax of the last dimension, or, binary, 1 / (1 + e⁻ˡ) of each element."""
    return logits.sigmoid() if is_binary else logits.softmax(dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """log p, or, binary, log p - log(1 - p); p is first clamped to (0, 1)."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dimensions."""
    return value if dim == 0 else value.reshape(*value.shape[: value.dim() - dim], -1).sum(-1)


def standard_normal(shape: tuple[int, ...] | Size, like: Tensor) -> Tensor:
    """Normal numbers with mean 0 and variance 1, in the dtype of `like`."""
    return creation.empty(shape, dtype=like.dtype).normal_()


def uniform(shape: Size, like: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Uniform numbers over [low, high), in the dtype of `like`."""
    return creation.empty(shape, dtype=like.dtype).uniform_(low, high)


def _triangle_indices(n: int, diag: int) -> tuple[Tensor, Tensor]:
    """The rows and columns of the elements in or below the diagonal `diag` of an n by n matrix."""
    places = [(i, j) for i in range(n) for j in range(min(n, i + diag + 1))]
    rows, columns = zip(*places, strict=True) if places else ((), ())
    return creation.tensor(rows, dtype="int64"), creation.tensor(columns, dtype="int64")


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements in or below the diagonal `diag`, row by row: (…, D, D) → (…, N).

    Raises ValueError for a diagonal past the corner.
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = _triangle_indices(n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The matrix whose triangle `tril_matrix_to_vec` reads, 0 elsewhere: (…, N) → (…, D, D).

    Raises ValueError for a length N that no triangle has.
    """
    size = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * size + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {size} which cannot be expressed as the lower triangular part of a square "
            "D x D matrix."
        )
    side = round(n)
    rows, columns = _triangle_indices(side, diag)
    flat = creation.zeros((*vec.shape[:-1], side * side), dtype=vec.dtype)
    places = (rows * side + columns).expand(vec.shape)
    return flat.scatter(-1, places, vec).reshape(*vec.shape[:-1], side, side)


def _standard_normal(shape: Sequence[int], dtype: DtypeLike, device: DeviceLike = None) -> Tensor:
    return creation.empty(shape, dtype=dtype, device=device).normal_()


# PyTorch's names, which user-defined distributions import
_sum_rightmost, euler_constant = sum_rightmost, EULER_GAMMA
