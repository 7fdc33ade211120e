"""From Python data to an array that a tensor can hold."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from adjoint.core.dtype import DTYPES, default, is_bfloat16, numpy_dtype


def as_array(data: Any, dtype: Any = None) -> Any:
    """An ndarray of a supported type over `data`'s memory where possible; numbers get the default types.

    Arrays keep their type; lists and Python numbers become the default floating type, int64 or bool.
    Raises TypeError for elements that are not numbers, ValueError for ragged lists.
    """
    if hasattr(data, "refuse"):  # a symbolic value of a step being traced
        return data
    given = isinstance(data, (np.ndarray, np.generic))
    array = _array(_untensor(data))
    if array.dtype.kind not in "biufc" and not is_bfloat16(array.dtype):
        raise TypeError(
            f"can't convert {type(data).__name__} with elements of type {array.dtype} to a tensor; the types are "
            + ", ".join(map(repr, DTYPES.values()))
        )
    if dtype is not None:
        if array.dtype.kind == "f" and not given and numpy_dtype(dtype) == np.uint64:
            with suppress(OverflowError):  # NumPy made floats of integers beyond int64 among others
                array = np.asarray(_untensor(data), np.uint64)
        return _as_type(array, numpy_dtype(dtype), checked=not given)
    if not given and not _holds_typed(data):
        if array.dtype.kind == "f":
            return array.astype(default.floating.numpy, copy=False)
        if array.dtype.kind == "c":
            return array.astype(np.complex128 if default.floating.itemsize == 8 else np.complex64, copy=False)
    if DTYPES.find(array.dtype) is None:
        native = array.dtype.newbyteorder("=")
        if native not in DTYPES:
            raise TypeError(
                f"can't convert {type(data).__name__} with elements of type {array.dtype} to a tensor; the types are "
                + ", ".join(map(repr, DTYPES.values()))
            )
        array = array.astype(native)
    return np.ascontiguousarray(array) if any(step < 0 for step in array.strides) else array


def _array(data: Any) -> Any:
    try:
        return np.asarray(data)
    except ValueError as error:
        raise ValueError(_raggedness(data, 0) or str(error)) from error


def _raggedness(data: Any, dim: int) -> str | None:
    """Where nested lists stop being a rectangle; None if they are one."""
    if not isinstance(data, list):
        return None
    lengths = [len(item) if isinstance(item, (list, np.ndarray)) and np.ndim(item) else None for item in data]
    for length in lengths:
        if length != lengths[0]:
            if None in (length, lengths[0]):
                return f"nested lists differ in depth at dim {dim + 1}"
            return f"expected sequence of length {lengths[0]} at dim {dim + 1} (got {length})"
    return next((found for item in data if (found := _raggedness(item, dim + 1))), None)


def _as_type(array: Any, kind: np.dtype[Any], checked: bool) -> Any:
    """`array` in type `kind`. Raises RuntimeError if a Python integer does not fit, where these are `checked`."""
    out = array.astype(kind, copy=False)
    if checked and kind.kind in "iu" and array.dtype.kind in "iu" and np.any(out != array):
        raise RuntimeError(f"value cannot be converted to type {DTYPES[kind].name} without overflow")
    return out


def _untensor(data: Any) -> Any:
    """Nested lists with the tensors in them replaced by their arrays."""
    if hasattr(data, "numpy_view"):
        return data.numpy_view("tensor()")
    if isinstance(data, (list, tuple)):
        return [_untensor(item) for item in data]
    return data


def _holds_typed(data: Any) -> bool:
    """True if the first number in a nested list brings its own type (an array or tensor element)."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return hasattr(data, "dtype")
