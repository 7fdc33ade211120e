"""Element types under PyTorch's names, and its rules of type promotion."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from adjoint.core.runtime.package_name import display_name

NumpyDtype: TypeAlias = np.dtype[Any]


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
        return f"{display_name.package}.{self.name}"

    def __reduce__(self) -> str:
        return "bool_" if self.rank == 0 else self.name

    def __eq__(self, other: object) -> bool:
        """Return whether `other` is this type, or the NumPy dtype of the same elements."""
        if isinstance(other, type):
            return issubclass(other, np.generic) and self.numpy == other
        return self is other or (isinstance(other, np.dtype) and self.numpy == other)

    def __hash__(self) -> int:
        return hash(self.numpy)


DtypeLike: TypeAlias = dtype | NumpyDtype | type | str | None


class _Bfloat16(dtype):
    """The type whose elements the package ml_dtypes defines. The package is imported on first use."""

    __slots__ = ()

    def __init__(self) -> None:
        self.name, self.rank, self.itemsize = "bfloat16", 2, 2
        self.is_floating_point = self.is_signed = True
        self.is_complex = False

    def __getattr__(self, name: str) -> Any:
        if name != "numpy":
            raise AttributeError(f"{self!r} has no attribute {name!r}")
        self.numpy = np.dtype(ml_dtypes().bfloat16)
        DTYPES[self.numpy] = self
        default.narrow = True
        return self.numpy

    def __eq__(self, other: object) -> bool:
        """Return whether `other` is this type; before ml_dtypes is imported only the type itself is."""
        return self is other or ("ml_dtypes" in sys.modules and super().__eq__(other))

    def __hash__(self) -> int:
        try:
            return super().__hash__()
        except ImportError:
            return hash(self.name)


def ml_dtypes() -> Any:
    """Import the package that gives NumPy the type bfloat16. Raises ImportError if it is not installed."""
    try:
        return import_module("ml_dtypes")
    except ImportError as error:
        raise ImportError(
            "adjoint.bfloat16 needs the package ml_dtypes, which is not installed: pip install ml_dtypes"
        ) from error


bool_ = dtype("bool", np.bool_, 0)
uint8 = dtype("uint8", np.uint8, 1)
uint16 = dtype("uint16", np.uint16, 1)
uint32 = dtype("uint32", np.uint32, 1)
uint64 = dtype("uint64", np.uint64, 1)
int8 = dtype("int8", np.int8, 1)
int16 = dtype("int16", np.int16, 1)
int32 = dtype("int32", np.int32, 1)
int64 = dtype("int64", np.int64, 1)
float16 = dtype("float16", np.float16, 2)
float32 = dtype("float32", np.float32, 2)
float64 = dtype("float64", np.float64, 2)
complex64 = dtype("complex64", np.complex64, 3)
complex128 = dtype("complex128", np.complex128, 3)
bfloat16 = _Bfloat16()


class _Types(dict[NumpyDtype, dtype]):
    """The library's types by NumPy's; bfloat16 joins them when it is first looked up."""

    def __missing__(self, kind: NumpyDtype) -> dtype:
        found = self.find(kind)
        if found is None:
            raise KeyError(kind)
        return found

    def find(self, kind: NumpyDtype) -> dtype | None:
        """Return the library's type, or None."""
        return bfloat16 if is_bfloat16(kind) and bfloat16.numpy == kind else self.get(kind)


DTYPES = _Types({
    d.numpy: d
    for d in (
        bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64, float16, float32, float64, complex64,
        complex128,
    )
})  # fmt: skip
FLOATING = "fcV"  # NumPy's kinds of types that have gradients: bfloat16, which NumPy itself lacks, is a V
_BY_PYTHON_TYPE: dict[type, dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}


class _Default:
    """The default floating type, which `set_default_dtype` changes. `narrow`: arrays may be bfloat16."""

    __slots__ = ("floating", "narrow")

    def __init__(self) -> None:
        self.floating: dtype = float32
        self.narrow = False


default = _Default()


def get_default_dtype() -> dtype:
    """Return the floating type that Python floats become: float32 unless changed."""
    return default.floating


def set_default_dtype(d: object) -> None:
    """Make the floating type `d` the one that Python floats become.

    Raises TypeError if `d` is not floating.
    """
    if not (isinstance(d, dtype) and d.is_floating_point):
        raise TypeError(f"set_default_dtype: expected a floating dtype, got {d!r}")
    default.floating = d


def as_dtype(d: DtypeLike) -> dtype:
    """Return the library's dtype for a dtype, a NumPy dtype or a Python type.

    Raises TypeError for element types that the library does not have.
    """
    if isinstance(d, dtype):
        return d
    if isinstance(d, type) and d in _BY_PYTHON_TYPE:
        return _BY_PYTHON_TYPE[d]
    found = DTYPES.find(np.dtype(d))
    if found is not None:
        return found
    types = ", ".join(map(repr, DTYPES.values()))
    raise TypeError(f"no tensor can hold elements of type {d!r}; the types are {types}")


def is_bfloat16(kind: NumpyDtype) -> bool:
    """Return whether `kind` is the NumPy dtype of bfloat16."""
    return kind.kind == "V" and kind.name == "bfloat16"


def numpy_dtype(d: DtypeLike) -> NumpyDtype:
    """Return the NumPy dtype of anything that `as_dtype` takes."""
    return as_dtype(d).numpy


def promote(operands: Iterable[Any]) -> NumpyDtype:
    """Return the type of an expression over arrays (anything with shape and dtype) and Python numbers.

    Arrays with dimensions decide. 0-d arrays count only if their category (bool, integer, floating, complex) is higher.
    Python numbers count only if theirs is higher still, and then as the default type of the category.
    """
    tiers: list[NumpyDtype | None] = [None] * 3
    for operand in operands:
        if hasattr(operand, "dtype"):
            tier, kind = (0 if operand.shape else 1), operand.dtype
        else:
            tier, kind = 2, _number_dtype(operand)
        before = tiers[tier]
        tiers[tier] = kind if before is None else _promote_pair(before, kind)
    result: NumpyDtype | None = None
    for kind in tiers:
        if result is None:
            result = kind
        elif kind is not None and DTYPES[kind].rank > DTYPES[result].rank:  # a float keeps its precision as complex
            result = complex_type(result) if DTYPES[result].is_floating_point else kind
    assert result is not None, "promote needs an operand"
    return result


def _number_dtype(number: complex | str) -> NumpyDtype:
    if isinstance(number, bool):
        return bool_.numpy
    if isinstance(number, int):
        return int64.numpy
    if isinstance(number, float):
        return default.floating.numpy
    if isinstance(number, complex):
        return (complex128 if default.floating is float64 else complex64).numpy
    raise TypeError(f"expected a tensor or a number, got {type(number).__name__}")


def _promote_pair(a: NumpyDtype, b: NumpyDtype) -> NumpyDtype:
    """Promote two types as NumPy does, except that an integer and a float become the float, however narrow.

    Raises RuntimeError for uint64 and a signed integer: no integer type holds both.
    """
    if a == b:
        return a
    rank_a, rank_b = DTYPES[a].rank, DTYPES[b].rank
    if rank_a == rank_b:
        if rank_a == 1 and a.kind != b.kind and np.uint64 in (a, b):
            raise RuntimeError(f"no integer type holds both {DTYPES[a]} and {DTYPES[b]}: convert one of them")
        return float32.numpy if {a.kind, b.kind} == {"V", "f"} and a.itemsize == b.itemsize else np.promote_types(a, b)
    high, low = (a, b) if rank_a > rank_b else (b, a)
    if DTYPES[high].is_complex and low == np.float64:
        return complex128.numpy
    return high


def result_type(*operands: object) -> dtype:
    """Return the type that an arithmetic expression over tensors and numbers would have."""
    return DTYPES[promote(getattr(o, "array", o) for o in operands)]


def promote_types(a: dtype, b: dtype) -> dtype:
    """Return the smallest type to which both `a` and `b` convert by PyTorch's rules."""
    return DTYPES[_promote_pair(a.numpy, b.numpy)]


def real_type(kind: NumpyDtype) -> NumpyDtype:
    """Return the type of the parts of complex numbers; a real type itself."""
    return kind if kind.kind != "c" else (float64 if kind.itemsize == 16 else float32).numpy


def complex_type(kind: NumpyDtype) -> NumpyDtype:
    """Return the complex type whose parts are of this floating type; a complex type itself."""
    return kind if kind.kind == "c" else (complex128 if kind.itemsize == 8 else complex64).numpy


def is_floating(array: Any) -> bool:
    """Return whether elements of this array's type can have a gradient."""
    return array.dtype.kind in FLOATING
