"""Element types, under PyTorch's names, and its rules for which type a mixed expression gets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


class dtype:
    """An element type: `adjoint.float32` and its siblings. One object each, so `is` and `==` agree."""

    __slots__ = ("is_complex", "is_floating_point", "is_signed", "itemsize", "name", "numpy", "rank")

    def __init__(self, name: str, numpy: type[np.generic], rank: int) -> None:
        self.name = name
        self.numpy = np.dtype(numpy)
        self.rank = rank  # the category, low to high: bool, integer, floating, complex
        self.itemsize = self.numpy.itemsize
        self.is_floating_point = rank == 2
        self.is_complex = rank == 3
        self.is_signed = self.numpy.kind not in "bu"

    def __repr__(self) -> str:
        return f"adjoint.{self.name}"

    def __reduce__(self) -> str:
        return "bool_" if self.rank == 0 else self.name

    def __eq__(self, other: object) -> bool:
        """True for this type, and for the NumPy dtype of the same elements."""
        if isinstance(other, type):
            return issubclass(other, np.generic) and self.numpy == other
        return self is other or (isinstance(other, np.dtype) and self.numpy == other)

    def __hash__(self) -> int:
        return hash(self.numpy)


bool_ = dtype("bool", np.bool_, 0)
uint8 = dtype("uint8", np.uint8, 1)
int8 = dtype("int8", np.int8, 1)
int16 = dtype("int16", np.int16, 1)
int32 = dtype("int32", np.int32, 1)
int64 = dtype("int64", np.int64, 1)
float16 = dtype("float16", np.float16, 2)
float32 = dtype("float32", np.float32, 2)
float64 = dtype("float64", np.float64, 2)
complex64 = dtype("complex64", np.complex64, 3)
complex128 = dtype("complex128", np.complex128, 3)

DTYPES = {
    d.numpy: d
    for d in (bool_, uint8, int8, int16, int32, int64, float16, float32, float64, complex64, complex128)
}
_BY_PYTHON_TYPE: dict[type, dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}


class _Default:
    """The type that Python floats become; `set_default_dtype` changes it."""

    __slots__ = ("floating",)

    def __init__(self) -> None:
        self.floating = float32


default = _Default()


def get_default_dtype() -> dtype:
    """The floating type which Python floats become: float32 unless changed."""
    return default.floating


def set_default_dtype(d: Any) -> None:
    """Make `d`, a floating type, the one which Python floats become.

    Raises TypeError if `d` is not floating.
    """
    if not (isinstance(d, dtype) and d.is_floating_point):
        raise TypeError(f"set_default_dtype: expected a floating dtype, got {d!r}")
    default.floating = d


def as_dtype(d: Any) -> dtype:
    """The library's dtype for a dtype, a NumPy dtype or a Python type.

    Raises TypeError for element types which the library does not have.
    """
    if isinstance(d, dtype):
        return d
    if isinstance(d, type) and d in _BY_PYTHON_TYPE:
        return _BY_PYTHON_TYPE[d]
    found = DTYPES.get(np.dtype(d))
    if found is None:
        types = ", ".join(map(repr, DTYPES.values()))
        raise TypeError(f"no tensor can hold elements of type {d!r}; the types are {types}")
    return found


def numpy_dtype(d: Any) -> np.dtype[Any]:
    """The NumPy dtype for anything `as_dtype` takes."""
    return as_dtype(d).numpy


def promote(operands: Iterable[Any]) -> np.dtype[Any]:
    """The type of an expression over `operands`: arrays (anything with shape and dtype) and Python numbers.

    PyTorch's rule: arrays with dimensions decide within their category; 0-d arrays count only if of a higher category
    than these; Python numbers only if of a higher one still, and then as the default type of their category.
    """
    tiers: list[np.dtype[Any] | None] = [None, None, None]
    for operand in operands:
        if hasattr(operand, "dtype"):
            tier, kind = (0 if operand.shape else 1), operand.dtype
        else:
            tier, kind = 2, _of_number(operand)
        before = tiers[tier]
        tiers[tier] = kind if before is None else _wider(before, kind)
    result: np.dtype[Any] | None = None
    for kind in (tiers[0], tiers[1], tiers[2]):
        if kind is not None and (result is None or DTYPES[kind].rank > DTYPES[result].rank):
            result = kind if result is None else _raised(result, kind)
    assert result is not None, "promote needs an operand"
    return result


def _raised(kind: np.dtype[Any], higher: np.dtype[Any]) -> np.dtype[Any]:
    """`kind` in the category of `higher`: a float that meets a complex number keeps its precision."""
    if DTYPES[kind].is_floating_point:
        return (complex128 if kind == np.float64 else complex64).numpy
    return higher


def _of_number(number: Any) -> np.dtype[Any]:
    if isinstance(number, bool):
        return bool_.numpy
    if isinstance(number, int):
        return int64.numpy
    if isinstance(number, float):
        return default.floating.numpy
    if isinstance(number, complex):
        return (complex128 if default.floating is float64 else complex64).numpy
    raise TypeError(f"expected a tensor or a number, got {type(number).__name__}")


def _wider(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """PyTorch's lattice: as NumPy's, but an integer and a float meet at the float, however narrow."""
    if a == b:
        return a
    rank_a, rank_b = DTYPES[a].rank, DTYPES[b].rank
    if rank_a == rank_b:
        return np.promote_types(a, b)
    high, low = (a, b) if rank_a > rank_b else (b, a)
    if DTYPES[high].is_complex and low == np.float64:
        return complex128.numpy
    return high


def result_type(*operands: Any) -> dtype:
    """The type an arithmetic expression over tensors and numbers would have."""
    return DTYPES[promote(getattr(o, "array", o) for o in operands)]


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest type to which both `a` and `b` convert under PyTorch's rules."""
    return DTYPES[_wider(a.numpy, b.numpy)]


def is_floating(array: Any) -> bool:
    """True when a gradient can exist for elements of this array's type."""
    return array.dtype.kind in "fc"
