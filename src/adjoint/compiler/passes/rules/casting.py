"""Changes of type that can be left out, or made earlier, without changing a bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from adjoint.compiler.passes.pattern import rule
from adjoint.core.dtype.dtype import is_bfloat16
from adjoint.core.typing import Function, NumpyDtype, Operand
from adjoint.ops.elementwise.arithmetic import add, div, mul, sqrt, sub
from adjoint.ops.elementwise.select import cast
from adjoint.ops.movement.movement import permute

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


@rule
def cast_to_its_own_type(x: Tensor, *, dtype: NumpyDtype) -> Iterator[Operand]:
    yield cast(x, dtype=dtype)
    yield x  # where that has the type


@rule
def cast_through_wider(x: Tensor, *, wide: NumpyDtype, dtype: NumpyDtype) -> Iterator[Operand]:
    yield cast(cast(x, dtype=wide), dtype=dtype)
    source = x.array.dtype
    # a float may be too large for an integer type: what that gives depends on the way
    overflows = dtype.kind in "iu" and "f" in (source.kind, wide.kind) and not can_represent(dtype, source)
    if can_represent(wide, source) and not overflows:
        yield cast(x, dtype=dtype)


@rule
def halves_of_turned(x: Tensor, *, axes: tuple[int, ...], dtype: NumpyDtype) -> Iterator[Operand]:
    """Round before the transpose: so a weight is rounded once, for products with it and with its transpose."""
    yield cast(permute(x, axes=axes), dtype=dtype)
    if is_bfloat16(dtype) or is_bfloat16(x.array.dtype):
        yield permute(cast(x, dtype=dtype), axes=axes)


def can_represent(wide: NumpyDtype, narrow: NumpyDtype) -> bool:
    """True if every value of the type `narrow` is one of `wide`."""
    if "c" in (wide.kind, narrow.kind):
        return bool(wide == narrow)
    if narrow.kind in "iu" and wide.kind == "f":
        return bool(np.finfo(wide).nmant + 1 >= np.iinfo(narrow).bits - (narrow.kind == "i"))
    return bool(np.can_cast(narrow, wide, "safe"))


@rule(op=[add, sub, mul, div])
def computed_wider_than_wanted(
    x: Tensor, y: Tensor, *, op: Function, wide: NumpyDtype, dtype: NumpyDtype
) -> Iterator[Operand]:
    yield cast(op(cast(x, dtype=wide), cast(y, dtype=wide)), dtype=dtype)
    if x.array.dtype == y.array.dtype == dtype and _rounds_once(wide, dtype):
        yield op(x, y)


@rule
def root_computed_wider_than_wanted(x: Tensor, *, wide: NumpyDtype, dtype: NumpyDtype) -> Iterator[Operand]:
    yield cast(sqrt(cast(x, dtype=wide)), dtype=dtype)
    if x.array.dtype == dtype and _rounds_once(wide, dtype):
        yield sqrt(x)


def _rounds_once(wide: NumpyDtype, dtype: NumpyDtype) -> bool:
    """True if rounding to `wide` first changes no sum, product, quotient or root in `dtype`.

    It has more than twice the digits, and two. Source: Figueroa, When is double rounding innocuous?, 1995.
    """
    return bool(wide == np.float64 and dtype == np.float32)
