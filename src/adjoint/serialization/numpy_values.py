"""NumPy's arrays and scalars in pickles: numbers only, made without NumPy's own reconstruction."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from adjoint.core.typing import Array, Function, NumpyDtype
from adjoint.serialization.zip_archive import FileError

NUMERIC_TYPE_CODE = re.compile(r"b1|[iu][1248]|f[248]|c8|c16")
BYTE_ORDERS = ("<", ">", "|", "=")


class NumpyType:
    """Stands for the element type of an array of the file."""

    def __init__(self, dtype: NumpyDtype) -> None:
        self.dtype = dtype

    def set_order(self, state: Any) -> None:
        """Take the byte order from the state that NumPy gives its types."""
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in BYTE_ORDERS or any(state[2:5]):
            raise FileError("an array of NumPy is of a type that is not plain")
        self.dtype = self.dtype.newbyteorder(state[1])


def numpy_globals() -> tuple[dict[str, Any], dict[Any, Function]]:
    """Return the globals that pickles of arrays and scalars name, and the functions that stand for them."""
    named: dict[str, Any] = {"numpy.dtype": np.dtype, "numpy.ndarray": np.ndarray}
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        named |= {f"{module}.scalar": _make_scalar, f"{module}._reconstruct": _make_empty}
    return named, {np.dtype: _make_type, _make_scalar: _make_scalar, _make_empty: _make_empty}


def fill_array(array: Array, state: Any) -> None:
    """Fill an array from the state that NumPy gives its arrays."""
    if not isinstance(state, tuple) or len(state) != 5:
        raise FileError("an array of NumPy has a state of an unknown form")
    _, shape, kind, fortran, data = state
    if not isinstance(shape, tuple) or len(shape) > 64 or any(type(n) is not int or not 0 <= n < 2**62 for n in shape):
        raise FileError("an array of NumPy has sizes that are none")
    dtype = _dtype_of(kind)
    if not isinstance(data, bytes) or len(data) != math.prod(shape) * dtype.itemsize or math.prod(shape or (1,)) < 0:
        raise FileError("an array of NumPy has more or fewer bytes than its sizes need")
    numpy_state: Any = (1, shape, dtype, fortran is True, data)  # NumPy's stub wants its own bool
    array.__setstate__(numpy_state)


def _make_type(code: Any, *_: object) -> NumpyType:
    if not isinstance(code, str) or not NUMERIC_TYPE_CODE.fullmatch(code):
        raise FileError("an array of NumPy has elements other than numbers")
    return NumpyType(np.dtype(code))


def _make_scalar(kind: Any, data: Any) -> Any:
    dtype = _dtype_of(kind)
    if not isinstance(data, bytes) or len(data) != dtype.itemsize:
        raise FileError("a scalar of NumPy has more or fewer bytes than its type needs")
    return np.frombuffer(data, dtype, 1).astype(dtype.newbyteorder("="))[0]


def _make_empty(*_: object) -> Array:
    return np.empty(0, np.uint8)


def _dtype_of(kind: Any) -> NumpyDtype:
    if not isinstance(kind, NumpyType):
        raise FileError("an array of NumPy is of a type that is none")
    return kind.dtype
