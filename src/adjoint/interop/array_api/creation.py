"""Tensors from data, fill values and ranges, under the standard's signatures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core.dtype.device import require_cpu
from adjoint.core.dtype.dtype import default, dtype, promote
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import DeviceLike, Operand
from adjoint.functions.creation import buffers_dlpack
from adjoint.functions.creation import creation as made
from adjoint.functions.shape import diag_tril, meshgrid_combinations
from adjoint.interop.array_api.dtypes import result_type
from adjoint.interop.array_api.operands import cast_to
from adjoint.ops.elementwise import select

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
    "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def asarray(obj: Any, /, *, dtype: dtype | None = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of a number, nested sequences, a tensor or whatever has a buffer; it shares memory unless `copy`.

    Raises ValueError if `copy` is false and a copy would be needed.
    """
    return made.asarray(obj, dtype=dtype, device=device, copy=copy)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """start, start + step, … before `stop`; `arange(n)` starts at 0; empty where `step` leads away from `stop`."""
    if stop is None:
        start, stop = 0, start
    if math.ceil((stop - start) / step) <= 0:
        kind = dtype or (None if any(isinstance(v, float) for v in (start, stop, step)) else np.dtype(np.int64))
        return made.empty(0, dtype=kind, device=device)
    return made.arange(start, stop, step, dtype=dtype, device=device)


def empty(shape: int | tuple[int, ...], *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """A tensor to be written; it is zero."""
    return made.zeros(shape, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """A tensor of the shape and type of x, to be written; it is zero."""
    return made.zeros_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: dtype | None = None, device: Any = None
) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere."""
    require_cpu(device)
    return constant(np.eye(n_rows, n_cols, k, dtype=(dtype or default.floating).numpy))


def from_dlpack(x: Operand, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of whatever speaks DLPack, or over a copy of it."""
    return buffers_dlpack.from_dlpack(x, device=device, copy=copy)


def full(shape: Any, fill_value: Any, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """One value everywhere, whose Python type gives the type unless named."""
    return made.full((shape,) if isinstance(shape, int) else shape, fill_value, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """One value in the shape and type of x."""
    return made.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: dtype | None = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """`num` numbers from `start` to `stop`, equally far apart; the last is `stop`, or the one before it."""
    require_cpu(device)
    kind = promote((0.0, start, stop)) if dtype is None else dtype.numpy
    return constant(np.linspace(start, stop, num, endpoint=endpoint).astype(kind))


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Each vector repeated over the grid that all of them span."""
    kind = result_type(*arrays).numpy
    parts = [cast_to(x, kind) for x in arrays]
    return [select.copy(x) for x in meshgrid_combinations.meshgrid(*parts, indexing=indexing)]


def ones(shape: int | tuple[int, ...], *, dtype: dtype | None = None, device: DeviceLike = None) -> Tensor:
    """Ones."""
    return made.ones(shape, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """Ones in the shape and type of x."""
    return made.ones_like(x, dtype=dtype, device=device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and below the k-th diagonal of matrices, zeros above."""
    return diag_tril.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The elements on and above the k-th diagonal of matrices, zeros below."""
    return diag_tril.triu(x, k)


def zeros(shape: int | tuple[int, ...], *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """Zeros."""
    return made.zeros(shape, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """Zeros in the shape and type of x."""
    return made.zeros_like(x, dtype=dtype, device=device)
