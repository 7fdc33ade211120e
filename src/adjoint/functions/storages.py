"""The memory of tensors by itself: bytes, or elements of a type, one after another."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjoint.core import dtype as types
from adjoint.core.device import CPU
from adjoint.core.dtype import DTYPES

__all__ = [
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage",
    "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage", "TypedStorage",
    "UntypedStorage",
]  # fmt: skip


class UntypedStorage:
    """The memory that a tensor sees, as bytes."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def device(self) -> Any:
        """The CPU."""
        return CPU

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return int(self.array.ctypes.data)

    def nbytes(self) -> int:
        """Number of bytes."""
        return int(self.array.nbytes)

    def size(self) -> int:
        """Number of elements."""
        return len(self)

    def element_size(self) -> int:
        """Bytes of one element."""
        return 1

    def __len__(self) -> int:
        return self.nbytes()

    def bytes(self) -> Any:
        """The bytes as an array, in the memory itself."""
        return self.array.reshape(-1, order="A").view(np.uint8)

    def _flat(self) -> Any:
        """The elements, in the memory itself."""
        return self.bytes()

    def tolist(self) -> list[Any]:
        """The elements."""
        found: list[Any] = self._flat().tolist()
        return found

    def __getitem__(self, at: Any) -> Any:
        return self.tolist()[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        self._flat()[at] = value

    def fill_(self, value: Any) -> Any:
        """This value everywhere."""
        self[:] = value
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self.array is other.array

    def __hash__(self) -> int:
        return id(self.array)


class TypedStorage(UntypedStorage):
    """The memory that a tensor sees, as elements."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """Type of the elements."""
        return DTYPES[self.array.dtype]

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self.array)

    def element_size(self) -> int:
        """Bytes of one element."""
        return int(self.array.itemsize)

    def __len__(self) -> int:
        return int(self.array.size)

    def _flat(self) -> Any:
        """The elements, in the memory itself."""
        return self.array.reshape(-1, order="A")


class OfType(type):
    """The class of typed constructors: a storage is an instance of the one of its dtype."""

    dtype: types.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype

    def __call__(cls, *data: Any) -> TypedStorage:
        """Zeros, as many as are asked for, or the elements of a sequence."""
        kind = cls.dtype.numpy
        given = data[0] if data else 0
        return TypedStorage(np.zeros(given, kind) if isinstance(given, (int, np.integer)) else np.array(given, kind))


def _constructor(name: str, kind: types.dtype) -> Any:
    about = f"Zeros, or the elements of a sequence, as {kind.name}; each storage of that type is an instance."
    return OfType(name, (), {"dtype": kind, "__module__": "adjoint", "__slots__": (), "__doc__": about})


BFloat16Storage, BoolStorage = _constructor("BFloat16Storage", types.bfloat16), _constructor("BoolStorage", types.bool_)
ByteStorage, CharStorage = _constructor("ByteStorage", types.uint8), _constructor("CharStorage", types.int8)
ShortStorage, IntStorage = _constructor("ShortStorage", types.int16), _constructor("IntStorage", types.int32)
LongStorage, HalfStorage = _constructor("LongStorage", types.int64), _constructor("HalfStorage", types.float16)
FloatStorage, DoubleStorage = _constructor("FloatStorage", types.float32), _constructor("DoubleStorage", types.float64)
ComplexFloatStorage = _constructor("ComplexFloatStorage", types.complex64)
ComplexDoubleStorage = _constructor("ComplexDoubleStorage", types.complex128)
