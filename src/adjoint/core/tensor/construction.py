"""Conversion of Python data to an array that a tensor can hold."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, complex_type, default, dtype, is_bfloat16, numpy_dtype, promote_types
from adjoint.core.dtype.dtype_info import check_range
from adjoint.core.runtime.explanation_slot import with_explanation
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.size import Size
from adjoint.core.typing import Array, DtypeLike, NumpyDtype, Operand, Operands, Shape

MAX_PLAIN_ELEMENTS = 1 << 20  # of what is made at once: memory for more may be missing
PYTHON_NUMBERS = {bool, int, float, complex}  # Python's numbers, which take the default types


def as_array(data: Any, dtype: DtypeLike = None) -> Array:
    """Return an ndarray of a supported type, over the memory of `data` if possible.

    Arrays keep their type; lists and Python numbers become the default floating type, int64 or bool.
    Raises TypeError for elements that are not numbers, ValueError for ragged lists.
    """
    if hasattr(data, "refuse"):  # a symbolic value of a step being traced
        return data
    if type(data) is np.ndarray and dtype is None and data.flags.c_contiguous and data.dtype in DTYPES:
        return data  # as most are
    given = isinstance(data, (np.ndarray, np.generic))
    kinds: set[object] = set()
    try:
        array = _array(_untensor(data, kinds))
    except RecursionError:
        raise TypeError("new(): self-referential lists are incompatible") from None
    if array.dtype.kind == "O" and kinds <= PYTHON_NUMBERS:
        if dtype is None or numpy_dtype(dtype).kind in "iu":  # integers beyond 64 bits
            raise ValueError("Overflow when unpacking long long")
        array = array.astype(np.bool_ if numpy_dtype(dtype).kind == "b" else np.float64)
    if array.dtype.kind not in "biufc" and not is_bfloat16(array.dtype):
        if array.dtype.kind in "US":
            raise TypeError(f"new(): invalid data type '{'str' if array.dtype.kind == 'U' else 'bytes'}'")
        raise _element_type_error(data, array)
    if dtype is not None:
        if array.dtype.kind == "f" and not given and numpy_dtype(dtype) == np.uint64:
            with suppress(OverflowError):  # NumPy made floats of integers beyond int64 among others
                array = np.asarray(_untensor(data, set()), np.uint64)
        return _as_type(array, numpy_dtype(dtype), checked=not given)
    if isinstance(data, (list, tuple)) and not kinds <= PYTHON_NUMBERS:
        common = _common_dtype(kinds)
        array = array if common is None else array.astype(common, copy=False)
    elif not given and not hasattr(data, "dtype"):
        if array.dtype.kind == "f":
            return array.astype(default.floating.numpy, copy=False)
        if array.dtype.kind == "c":
            return array.astype(np.complex128 if default.floating.itemsize == 8 else np.complex64, copy=False)
    if DTYPES.find(array.dtype) is None:
        native = array.dtype.newbyteorder("=")
        if native not in DTYPES:
            raise _element_type_error(data, array)
        array = array.astype(native)
    return np.ascontiguousarray(array) if any(step < 0 for step in array.strides) else array


def _element_type_error(data: object, array: Array) -> TypeError:
    return TypeError(
        f"can't convert {type(data).__name__} with elements of type {array.dtype} to a tensor; the types are "
        + ", ".join(map(repr, DTYPES.values()))
    )


def array_from_constructor(given: Operands) -> Array:
    """Return the array of `Tensor(*given)`: zeros of these sizes, a tensor's own array, or data in the default type.

    Raises TypeError for a number that is no size, for complex numbers and for several operands that are no sizes.
    """
    kind = default.floating.numpy
    sizes = given[0] if len(given) == 1 and isinstance(given[0], Size) else given
    if all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in sizes):
        return np.zeros(sizes if given else 0, kind)
    (data, *more) = given
    if more or isinstance(data, (bool, float, complex, str, np.generic)):
        raise TypeError(f"new(): data must be a sequence (got {', '.join(type(x).__name__ for x in given)})")
    if nondefault.count and mode.interpreter is not None:
        known = data if hasattr(data, "array") else mode.interpreter.stack_numbers(data, kind)
        if known is not None:
            return known.array
    array = as_array(data)
    if hasattr(data, "array") or hasattr(array, "refuse"):  # a tensor, or a symbolic value of a step being traced
        return array
    if array.dtype.kind == "c":
        raise TypeError("new(): must be real numbers, not complex: see adjoint.tensor")
    with np.errstate(all="ignore"):  # what is too large becomes infinite
        return array.astype(kind, copy=False)


def _array(data: object) -> Array:
    try:
        return np.asarray(data)
    except ValueError as error:
        found = _ragged_error([data], 0)
        if found is None:
            raise
        raise found from error


def _ragged_error(level: list[Operand], dim: int) -> Exception | None:
    """Return the error for nested lists and arrays that form no rectangle; None if they do."""
    lengths = [len(x) if isinstance(x, list) or (isinstance(x, np.ndarray) and x.ndim) else None for x in level]
    for length in lengths:
        if length != lengths[0]:
            if None in (length, lengths[0]):
                return TypeError(f"not a sequence: nested lists differ in depth at dim {dim}")
            return ValueError(f"expected sequence of length {lengths[0]} at dim {dim} (got {length})")
    return _ragged_error([part for item in level for part in item], dim + 1) if lengths and lengths[0] else None


def _as_type(array: Array, kind: NumpyDtype, checked: bool) -> Array:
    """Convert `array` to type `kind`. Raises RuntimeError if a Python integer does not fit and these are `checked`."""
    out = array.astype(kind, copy=False)
    if checked and kind.kind in "iu" and array.dtype.kind in "iu":
        lost = out != array
        if kind.kind == "u" and array.dtype.kind == "i":  # as in PyTorch, negative numbers whose magnitude fits wrap
            lost = lost & ((array >= 0) | (array < -np.iinfo(kind).max))
        if np.any(lost):
            raise RuntimeError(f"value cannot be converted to type {DTYPES[kind].name} without overflow")
    return out


def _untensor(data: Any, kinds: set[object]) -> object:
    """Replace the tensors in nested lists by their numbers, and collect the types of the elements in `kinds`.

    Raises: ValueError for a tensor in a list that is not one number.
    """
    if hasattr(data, "numpy_view"):
        data = data.numpy_view("tensor()")
    elif isinstance(data, (list, tuple)):
        return [_untensor(_number_of(item) if hasattr(item, "numpy_view") else item, kinds) for item in data]
    kinds.add(getattr(data, "dtype", None) or type(data))
    return data


def _number_of(tensor: Operand) -> object:
    """Return the element of a tensor that lists with numbers hold."""
    array = tensor.numpy_view("tensor()")
    if array.size != 1:
        raise with_explanation(ValueError("only one element tensors can be converted to Python scalars"))
    return array.reshape(())


def _common_dtype(kinds: set[Any]) -> NumpyDtype | None:
    """Return the common type of numbers of these types, of which some are Python's; None if there is none."""
    common: dtype | None = None
    for kind in kinds:
        if kind is float or kind is complex:  # a NumPy type equals the Python type it stands for
            floating = default.floating.numpy
            kind = floating if kind is float else complex_type(floating)
        known = DTYPES.find(np.dtype(kind)) if kind in PYTHON_NUMBERS or isinstance(kind, np.dtype) else None
        if known is None:
            return None
        common = known if common is None else promote_types(common, known)
    return None if common is None else common.numpy


MAX_HALF = 65504  # the largest number of float16, which all floating types hold


def try_plain_full(shape: Shape, value: Operand, dtype: NumpyDtype) -> Array | None:
    """Return an array filled with a Python number, for what most programs ask for; None for all else."""
    given, kind = type(value), dtype.kind
    if kind == "f":
        is_plain = given is int or given is float
        if not (is_plain and -MAX_HALF <= value <= MAX_HALF):
            check_range(value, dtype)
    elif kind == "b":
        is_plain = given is bool or (given is int and 0 <= value <= 1)
    else:
        is_plain = given is int and dtype == np.int64 and -(2**63) <= value < 2**63
    if not is_plain:
        return None
    count = 1
    for n in shape:
        if type(n) is not int or n < 0:
            return None
        count *= n
    if count > MAX_PLAIN_ELEMENTS:
        return None
    array = np.empty(shape, dtype)
    array.fill(value)
    return array


def try_plain_range(start: Operand, end: Operand, step: Operand) -> Array | None:
    """Return a range of integers, counted upwards; None for another, and where a mode sees how it is made."""
    if end is None:
        start, end = 0, start
    if not type(start) is type(end) is type(step) is int or step <= 0 or end < start or end >= 2**62:
        return None
    return None if nondefault.count and mode.needs_slow_path else np.arange(start, end, step, dtype=np.int64)
