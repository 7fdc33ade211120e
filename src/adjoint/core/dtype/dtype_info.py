"""The limits of element types: `finfo` and `iinfo`."""

from __future__ import annotations

from math import inf

import numpy as np

from adjoint.core.dtype.dtype import DtypeLike, NumpyDtype, as_dtype, bfloat16, dtype, get_default_dtype, ml_dtypes

MAX_HALF = 65504.0
LARGEST = {"e": MAX_HALF, "f": 3.4028234663852886e38}  # by the characters of NumPy's types


def check_range(number: object, kind: NumpyDtype) -> None:
    """Raise RuntimeError for a finite Python number beyond the largest of a floating type, as PyTorch does."""
    if (type(number) is float or type(number) is int) and not -MAX_HALF <= number <= MAX_HALF:
        largest = LARGEST.get(kind.char, inf)
        if largest < abs(number) != inf:
            raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow: {number}")


class finfo:
    """`eps`, `max`, `min`, `tiny` and their like of a floating type, the default one unless given.

    Raises: TypeError for other types.
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: DtypeLike = None) -> None:
        kind = get_default_dtype() if type is None else as_dtype(type)
        if kind.rank < 2:
            raise TypeError(
                f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{kind.name}'"
            )
        if kind is bfloat16 or kind.itemsize == 1:
            found = ml_dtypes().finfo(kind.name.removesuffix("_x2"))
        else:
            found = np.finfo(kind.numpy)
        self.dtype, self.bits = kind.name, int(found.bits)
        self.eps, self.max, self.min = float(found.eps), float(found.max), float(found.min)
        self.tiny = self.smallest_normal = float(found.smallest_normal)
        self.resolution = 10.0 ** -int(found.precision)

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        named = ", ".join(f"{name}={getattr(self, name):g}" for name in names)
        return f"finfo({named}, dtype={self.dtype})"


class iinfo:
    """`bits`, `max` and `min` of an integer type. Raises TypeError for other types."""

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: DtypeLike) -> None:
        kind = as_dtype(type)
        if kind.rank != 1:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{kind.name}'")
        found = np.iinfo(kind.numpy)
        self.dtype, self.bits, self.max, self.min = kind.name, found.bits, int(found.max), int(found.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


NAMES = {
    "bool": "Bool", "uint8": "Byte", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "int8": "Char",
    "int16": "Short", "int32": "Int", "int64": "Long", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float",
    "float64": "Double", "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


def scalar_type(kind: NumpyDtype | dtype) -> str:
    """Return PyTorch's name of a type, NumPy's or the library's, for error messages."""
    return NAMES[kind.name]
