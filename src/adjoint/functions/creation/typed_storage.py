"""The memory of tensors by itself: bytes, or elements of a type, one after another."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from adjoint.core.dtype import dtype as types
from adjoint.core.dtype.device import CPU
from adjoint.core.dtype.device import device as Device
from adjoint.core.dtype.dtype import DTYPES, default, is_bfloat16, numpy_dtype
from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.runtime.package_name import display_name
from adjoint.core.tensor.as_strided import copy_keeping_strides, owner
from adjoint.core.tensor.external_aliases import is_externally_aliased
from adjoint.core.typing import Array, DeviceLike, DtypeLike, NumpyDtype, Operand

if TYPE_CHECKING:
    from multiprocessing.heap import Arena

__all__ = [
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage",
    "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage", "Storage",
    "TypedStorage", "UntypedStorage",
]  # fmt: skip

# memory that processes share, by the id of the array that is all
arenas: dict[int, tuple[weakref.ref[Array], Arena]] = {}


class UntypedStorage:
    """The memory that a tensor sees, as bytes; of a number so many zeros, of a sequence its bytes.

    Raises: RuntimeError in `copy_` for another size.
    """

    __slots__ = ("array",)
    is_cuda = is_sparse = is_sparse_csr = False

    def __init__(self, data: Operand = 0, *, device: DeviceLike = None) -> None:
        self.array = data if isinstance(data, np.ndarray) else _elements(data, np.dtype(np.uint8))

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Return the first bytes of a file, mapped into memory: see `adjoint.from_file`."""
        return UntypedStorage(_map_file(filename, shared, nbytes, types.uint8))

    @property
    def filename(self) -> str | None:
        """The file to which writes go, if the memory is one's."""
        array: object = self.array
        while array is not None and not isinstance(array, np.memmap):
            array = getattr(array, "base", None)
        return None if array is None or array.mode == "c" else str(array.filename)

    @property
    def device(self) -> Device:
        """The CPU."""
        return CPU

    @property
    def _cdata(self) -> int:
        return self.data_ptr()

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return int(self.array.ctypes.data)

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return int(self.array.nbytes)

    def size(self) -> int:
        """Return the number of elements."""
        return len(self)

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return 1

    def __len__(self) -> int:
        return self.nbytes()

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def bytes(self) -> Array:
        """Return the bytes as an array, in the memory itself."""
        return self.array.reshape(-1, order="A").view(np.uint8)

    def untyped(self) -> UntypedStorage:
        """Return the memory as bytes."""
        return self

    def elements(self, dtype: DtypeLike = None) -> Array:
        """Return the bytes as elements of `dtype`, the default one unless given: what a tensor made of them takes."""
        return self.bytes().view(numpy_dtype(dtype or default.floating))

    def cpu(self) -> Self:
        """Return this storage."""
        return self

    def clone(self) -> Self:
        """Return the same bytes in memory of their own."""
        return type(self)(self._flat().copy())

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return type(self)(copy_keeping_strides(self.array, memo))

    def copy_(self, source: Operand, non_blocking: bool = False) -> Self:
        """Write what another storage of this size has. Raises RuntimeError for another number of elements."""
        if len(source) != len(self):
            raise RuntimeError(f"size does not match, self was {len(self)} but source was {len(source)}")
        self._flat()[:] = source._flat()
        return self

    def resizable(self) -> bool:
        """Return False while an array of NumPy outside sees the memory."""
        return not is_externally_aliased(self.array)

    def is_pinned(self, device: DeviceLike = None) -> bool:
        """Return False."""
        return False

    def is_shared(self) -> bool:
        """Return True if the memory is a file's, or shared by processes."""
        return self.filename is not None or id(owner(self.array)) in arenas

    def byteswap(self, dtype: DtypeLike) -> None:
        """Reverse the bytes of each element of `dtype`; of complex numbers those of either part."""
        kind = numpy_dtype(dtype)
        width = kind.itemsize // (2 if kind.kind == "c" else 1)
        flat = self.bytes()
        flat[:] = flat.reshape(-1, width)[:, ::-1].reshape(-1)

    def _flat(self) -> Array:
        return self.bytes()

    def tolist(self) -> list[Any]:
        """Return the elements."""
        return list(self._flat().tolist())

    def __getitem__(self, at: Any) -> Any:
        return UntypedStorage(self.bytes()[at]) if isinstance(at, slice) else self.tolist()[at]

    def __setitem__(self, at: int | slice, value: Operand) -> None:
        self._flat()[at] = value._flat() if isinstance(value, UntypedStorage) else value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def fill_(self, value: Operand) -> Self:
        """Write one value into all elements."""
        self[:] = value
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self.array is other.array

    def __hash__(self) -> int:
        return id(self.array)


class TypedStorage(UntypedStorage):
    """The memory that a tensor sees, as elements. Raises RuntimeError for a storage of another type."""

    __slots__ = ()

    def __init__(
        self,
        data: Operand = 0,
        *,
        wrap_storage: UntypedStorage | None = None,
        dtype: DtypeLike = None,
        device: DeviceLike = None,
    ) -> None:
        kind = numpy_dtype(dtype or default.floating)
        if wrap_storage is not None:
            self.array = wrap_storage.bytes().view(kind)
        else:
            self.array = data if isinstance(data, np.ndarray) else _elements(data, kind)

    @property
    def dtype(self) -> types.dtype:
        """Type of the elements."""
        return DTYPES[self.array.dtype]

    @property
    def _untyped_storage(self) -> UntypedStorage:
        return UntypedStorage(self.array)

    def untyped(self) -> UntypedStorage:
        """Return the same memory as bytes."""
        return UntypedStorage(self.array)

    def type(self, dtype: Any = None) -> TypedStorage | str:
        """Return the name of the type, or the elements in another."""
        if dtype is not None:
            return TypedStorage(self._flat().astype(getattr(dtype, "dtype", dtype).numpy))
        return f"{display_name.package}.{next(n for n, c in TYPED_CONSTRUCTORS.items() if c.dtype is self.dtype)}"

    def elements(self, dtype: DtypeLike = None) -> Array:
        """Return the elements. Raises RuntimeError where those of another type are asked for."""
        if dtype is not None and numpy_dtype(dtype) != self.array.dtype:
            wanted, found = scalar_type(numpy_dtype(dtype)), scalar_type(self.array.dtype)
            raise RuntimeError(f"Expected a Storage of type {wanted} or an UntypedStorage, but got {found}")
        return self._flat()

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return int(self.array.itemsize)

    def __len__(self) -> int:
        return int(self.array.size)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self.tolist()[at]

    def _flat(self) -> Array:
        return self.array.reshape(-1, order="A")


def _add_cast_method(word: str, kind: types.dtype) -> None:
    def convert(self: TypedStorage) -> TypedStorage:
        return self if self.dtype is kind else TypedStorage(self._flat().astype(kind.numpy))

    convert.__name__ = word
    convert.__doc__ = f"The elements as {kind.name}."
    setattr(TypedStorage, word, convert)


for _word, _kind in {
    "bool": types.bool_, "byte": types.uint8, "char": types.int8, "short": types.int16, "int": types.int32,
    "long": types.int64, "half": types.float16, "bfloat16": types.bfloat16, "float": types.float32,
    "double": types.float64, "complex_float": types.complex64, "complex_double": types.complex128,
}.items():  # fmt: skip
    _add_cast_method(_word, _kind)


def _elements(data: Operand, kind: NumpyDtype) -> Array:
    """Return as many zeros as `data` says, or the elements of a sequence."""
    return np.zeros(data, kind) if isinstance(data, (int, np.integer)) else np.array(data, kind)


def _map_file(filename: str | os.PathLike[str], shared: bool, size: int, kind: types.dtype) -> Array:
    from adjoint.functions.creation.buffers_dlpack import from_file

    return owner(from_file(filename, shared, size, dtype=kind).array)


class StorageOfType(type):
    """The class of typed constructors: a storage is an instance of the one of its dtype."""

    dtype: types.dtype

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype

    def __call__(cls, *data: Operand) -> TypedStorage:
        """Return as many zeros as `data` says, or the elements of a sequence."""
        if len(data) > 1:
            raise RuntimeError("Too many positional arguments: expected a size or a sequence")
        if data and isinstance(data[0], str):
            raise TypeError("invalid data type 'str'")
        return TypedStorage(_elements(data[0] if data else 0, cls.dtype.numpy))

    def from_buffer(
        cls, buffer: Any, byte_order: str = sys.byteorder, count: int = -1, offset: int = 0
    ) -> TypedStorage:
        """Return the elements of a buffer, whose bytes come in the order "little", "big" or "native", copied."""
        kind = cls.dtype.numpy
        if kind.kind == "b":
            found = np.frombuffer(buffer, np.uint8, count, offset) != 0
        elif is_bfloat16(kind):
            found = np.frombuffer(buffer, kind, count, offset)
        else:
            order = {"little": "<", "big": ">", "native": "="}[byte_order]
            found = np.frombuffer(buffer, order + kind.str[1:], count, offset)
        return TypedStorage(found.astype(kind))

    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, size: int = 0) -> TypedStorage:
        """Return the first elements of a file, mapped into memory: see `adjoint.from_file`."""
        return TypedStorage(_map_file(filename, shared, size, cls.dtype))


def _make_storage_type(name: str, kind: types.dtype) -> StorageOfType:
    about = f"Zeros, or the elements of a sequence, as {kind.name}; each storage of that type is an instance."
    return StorageOfType(name, (), {"dtype": kind, "__module__": "adjoint", "__slots__": (), "__doc__": about})


BFloat16Storage, BoolStorage = (
    _make_storage_type("BFloat16Storage", types.bfloat16),
    _make_storage_type("BoolStorage", types.bool_),
)
ByteStorage, CharStorage = _make_storage_type("ByteStorage", types.uint8), _make_storage_type("CharStorage", types.int8)
ShortStorage, IntStorage = (
    _make_storage_type("ShortStorage", types.int16),
    _make_storage_type("IntStorage", types.int32),
)
LongStorage, HalfStorage = (
    _make_storage_type("LongStorage", types.int64),
    _make_storage_type("HalfStorage", types.float16),
)
FloatStorage, DoubleStorage = (
    _make_storage_type("FloatStorage", types.float32),
    _make_storage_type("DoubleStorage", types.float64),
)
ComplexFloatStorage = _make_storage_type("ComplexFloatStorage", types.complex64)
ComplexDoubleStorage = _make_storage_type("ComplexDoubleStorage", types.complex128)
Storage = FloatStorage
TYPED_CONSTRUCTORS = {
    name: made for name, made in tuple(globals().items()) if isinstance(made, StorageOfType) and name != "Storage"
}
