"""Numbers in a row, in geometric steps or with the end included; one number; and positions told by one number each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, default, numpy_dtype
from adjoint.core.graph.source_location import warn_user
from adjoint.core.tensor.shape_tracer import on_requested_device
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.functions.api.out import with_out, write_out
from adjoint.functions.api.publish import public
from adjoint.functions.creation.creation import check_range_ends, dtype_for_out, infer_range_dtype, tensor
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.indexing.nonzero import nonzero_places

__all__ = ["logspace", "nonzero_static", "range", "scalar_tensor", "unravel_index"]


def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` numbers from base^start to base^end, both included, each the same factor beyond the one before.

    Raises RuntimeError for a negative number of steps.
    """
    if out is not None:
        return write_out(out, logspace, start, end, steps, base, dtype=dtype_for_out(out, dtype))
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = check_range_ends("logspace", start, end)
    kind = infer_range_dtype("logspace", start, end, dtype)
    with np.errstate(invalid="ignore"):
        powers = np.power(base + 0j if kind.kind == "c" else float(base), np.linspace(start, end, steps))
    return _finish_factory(constant(powers.astype(kind)), requires_grad, device)


def range(
    start: Any, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """start, start + step, … up to and including `end`. Deprecated: `arange` leaves the end out, as Python does.

    Raises RuntimeError for a step of zero or away from `end`.
    """
    warn_user(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
        UserWarning,
    )
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    start, end, step = (_to_number(v) for v in (start, end, step))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    kind = numpy_dtype(dtype or (out.dtype if out is not None else default.floating))
    steps = np.arange(math.floor((end - start) / step) + 1)
    made = constant((start + step * steps).astype(kind))
    if out is None:
        return _finish_factory(made, requires_grad, device)

    def return_made() -> Tensor:
        return made

    return_made.__name__ = "range"
    return write_out(out, return_made)


def scalar_tensor(
    s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """One number as a 0-d tensor of the default type, whatever the number's own."""
    if isinstance(s, complex) and not DTYPES[numpy_dtype(dtype or default.floating)].is_complex:
        raise RuntimeError("value cannot be converted to type float without overflow")
    return tensor(_to_number(s), dtype=dtype or default.floating, device=device, requires_grad=requires_grad)


@public()
@with_out
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The positions of the first `size` elements that are not zero, (size, ndim); what is left over is `fill_value`.

    Raises RuntimeError for a negative size.
    """
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    return nonzero_places(input.detach(), size=size, fill=fill_value)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates, one tensor for each dimension, of elements of a tensor of that shape counted row by row.

    Raises TypeError for indices or sizes that are not integers, ValueError for negative sizes.
    """
    if indices.array.dtype.kind not in "iu":
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, np.integer, Sequence)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    for size in sizes:
        if not isinstance(size, (int, np.integer)):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(size < 0 for size in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    found, step = [], 1
    whole = select.cast(indices, dtype=np.dtype(np.int64))
    for size in reversed(sizes):
        found.append(arithmetic.remainder(arithmetic.floor_divide(whole, step), size))
        step *= size
    return tuple(reversed(found))


def _to_number(value: Any) -> Any:
    return value.item() if isinstance(value, (Tensor, np.generic)) else value


def _finish_factory(out: Tensor, requires_grad: bool, device: Any) -> Tensor:
    if device is not None:
        out = on_requested_device(out, device)
    return out.requires_grad_() if requires_grad else out
