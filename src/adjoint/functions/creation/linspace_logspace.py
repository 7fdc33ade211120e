"""Ranges of numbers that include both ends: in equal steps, or in equal ratios."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.dtype.dtype import as_dtype, default, numpy_dtype, promote
from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.graph.source_location import warn_user
from adjoint.core.op.op import op_of
from adjoint.core.runtime.mode import is_batched
from adjoint.core.tensor.size import has_symbolic
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import DeviceLike, DtypeLike, Function, NumpyDtype, Operand
from adjoint.functions.api.out import write_out
from adjoint.functions.creation.creation import dtype_for_out, finish_factory, to_number
from adjoint.ops import creation as creation_ops

__all__ = ["linspace", "logspace", "range"]
PLAIN_NUMBERS = frozenset({int, float})


def linspace(
    start: Operand,
    end: Operand,
    steps: int,
    *,
    dtype: DtypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    layout: object = None,
    pin_memory: bool = False,
    out: Operand = None,
) -> Tensor:
    """Return `steps` evenly spaced numbers from `start` to `end`, both included.

    Args:
        start, end: first and last number; numbers or 0-d tensors.
        steps: how many numbers, at least 0.
        dtype: element type. Default: the default dtype.
        device: "cpu" (default), or "meta" for a tensor without elements.
        requires_grad: True to record operations on the result. Default: False.
        layout, pin_memory: ignored.
        out: tensor that takes the result; its dtype is used.

    Raises: RuntimeError for negative `steps`.

    Example:
        >>> ad.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    if out is not None:
        return write_out(out, linspace, start, end, steps, dtype=dtype_for_out(out, dtype))
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = check_range_ends("linspace", start, end)
    kind = infer_range_dtype("linspace", start, end, dtype)
    if kind.kind == "b":
        raise NotImplementedError("linspace: not implemented for adjoint.bool")
    made = _fill_range(creation_ops.even_steps, start, end, steps=steps, dtype=kind)
    return finish_factory(made, requires_grad, device)


def check_range_ends(name: str, start: Tensor | float, end: Tensor | complex) -> tuple[Operand, Operand]:
    """Return the two ends as numbers; those that `vmap` has for each example stay tensors.

    Raises RuntimeError for tensors with dimensions.
    """
    if type(start) in PLAIN_NUMBERS and type(end) in PLAIN_NUMBERS:
        return start, end
    if any(isinstance(v, Tensor) and v.ndim for v in (start, end)):
        ranks = [v.ndim if isinstance(v, Tensor) else 0 for v in (start, end)]
        raise RuntimeError(
            f"{name} only supports 0-dimensional start and end tensors, but got start with {ranks[0]} dimension(s) and "
            f"end with {ranks[1]} dimension(s)."
        )
    if is_batched(start) or is_batched(end):
        first, last = (v.detach() if isinstance(v, Tensor) else v for v in (start, end))
        return first, last
    first, last = (v.item() if isinstance(v, (Tensor, np.generic)) else v for v in (start, end))
    return first, last


def infer_range_dtype(name: str, start: Operand, end: Operand, dtype: DtypeLike) -> NumpyDtype:
    """Return the type of numbers between two. Raises RuntimeError for complex ones that `dtype` cannot hold."""
    if type(start) in PLAIN_NUMBERS and type(end) in PLAIN_NUMBERS:
        return default.floating.numpy if dtype is None else numpy_dtype(dtype)
    tensors_as_numbers = (v.array.dtype.type(0).item() if isinstance(v, Tensor) else v for v in (start, end))
    found = promote((0.0, *tensors_as_numbers))
    if dtype is None:
        return found
    if found.kind == "c" and numpy_dtype(dtype).kind != "c":
        kind = "float" if found.itemsize == 8 else "double"
        raise RuntimeError(
            f"torch.{name}(): inferred dtype c10::complex<{kind}> can't be safely cast to passed dtype "
            f"{scalar_type(as_dtype(dtype))}"
        )
    return numpy_dtype(dtype)


def _fill_range(fill: Function, start: Operand, end: Operand, **params: Operand) -> Tensor:
    """Return the numbers between two ends: of each example of a batch, if `vmap` has several."""
    if isinstance(start, Tensor) or isinstance(end, Tensor) or has_symbolic(params["steps"]):
        return fill(start, end, **params)
    return constant(op_of(fill).evaluate(start, end, **params))


def logspace(
    start: Operand,
    end: Operand,
    steps: int,
    base: float = 10.0,
    *,
    out: Operand = None,
    dtype: DtypeLike = None,
    layout: object = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return `steps` numbers from base^start to base^end, both included, each the same factor beyond the one before.

    Raises RuntimeError for a negative number of steps.
    """
    if out is not None:
        return write_out(out, logspace, start, end, steps, base, dtype=dtype_for_out(out, dtype))
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    start, end = check_range_ends("logspace", start, end)
    kind = infer_range_dtype("logspace", start, end, dtype)
    made = _fill_range(creation_ops.even_ratios, start, end, steps=steps, base=base, dtype=kind)
    return finish_factory(made, requires_grad, device)


def range(
    start: Operand,
    end: Operand = None,
    step: Tensor | float = 1,
    *,
    out: Tensor | None = None,
    dtype: DtypeLike = None,
    layout: object = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return start, start + step, … up to and including `end`. Deprecated: `arange` leaves the end out, as Python does.

    Raises RuntimeError for a step of zero or away from `end`.
    """
    warn_user(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
        UserWarning,
    )
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    start, end, step = (to_number(v) for v in (start, end, step))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    kind = numpy_dtype(dtype or (out.dtype if out is not None else default.floating))
    steps = np.arange(math.floor((end - start) / step) + 1)
    made = constant((start + step * steps).astype(kind))
    if out is None:
        return finish_factory(made, requires_grad, device)

    def return_made() -> Tensor:
        return made

    return_made.__name__ = "range"
    return write_out(out, return_made)
