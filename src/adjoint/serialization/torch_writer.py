"""Write files as PyTorch does: a pickle of the value, in which tensors refer to storages, and those beside it."""

from __future__ import annotations

import codecs
import io
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np

from adjoint.core.dtype.device import device
from adjoint.core.dtype.dtype import bfloat16, dtype, uint8
from adjoint.core.runtime.package_name import display_name
from adjoint.core.tensor.as_strided import address, dense_strides, element_strides, owner
from adjoint.core.tensor.memory_format import layout
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.sparse_array import is_sparse
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.typed_storage import TypedStorage, UntypedStorage
from adjoint.serialization.atomic import Chunk
from adjoint.serialization.safe_globals import STORAGE_DTYPES
from adjoint.serialization.zip_archive import CHECKSUM_RECORD, write_archive

STORAGE_NAMES = {kind.name: name for name, kind in STORAGE_DTYPES.items()}


class NamedGlobal:
    """Stands for something of PyTorch in a pickle; nobody ever calls it."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self) -> None:
        raise TypeError(f"{self.module}.{self.name} is a name in a file only")


class StorageReference:
    """Stands for a storage in a pickle."""

    def __init__(self, identity: tuple[Any, ...]) -> None:
        self.identity = identity


def write(value: Any, folder: str) -> Iterator[Chunk]:
    """Return the file as chunks, its records in this folder; pickling precedes the first chunk.

    Raises: the error of pickling for a value that cannot be pickled.
    """
    text = io.BytesIO()
    pickler = TorchPickler(text)
    pickler.dump(value)
    records: list[tuple[str, Chunk]] = [
        ("data.pkl", text.getvalue()),
        (".format_version", b"1"),
        (".storage_alignment", b"64"),
        ("byteorder", sys.byteorder.encode()),
        *[(f"data/{key}", array.view(np.uint8).data) for key, array in enumerate(pickler.storages)],
        ("version", b"3\n"),
    ]
    return write_archive(((f"{folder}/{name}", data) for name, data in records), f"{folder}/{CHECKSUM_RECORD}")


class TorchPickler(pickle._Pickler):
    """Python's pickler in protocol 2, with tensors and their like as PyTorch writes them."""

    write: Callable[[bytes], Any]  # these two are Python's
    memoize: Callable[[Any], None]
    dispatch: ClassVar[dict[type, Callable[..., None]]] = dict(pickle._Pickler.dispatch)

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=2)
        self.storages: list[Any] = []  # (n,) arrays
        self.keys: dict[int, int] = {}  # by the id of the array that owns the memory
        self.alive_objects: list[Any] = []  # so that no id is given anew

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, UntypedStorage):
            obj = self._storage_reference(obj)
        return obj.identity if type(obj) is StorageReference else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            if is_sparse(obj):
                sparse: Any = obj
                return REBUILD_SPARSE, (sparse.layout, sparse.parts())
            # one without a shape yet, say, knows best
            return self._tensor(obj) if type(obj).__reduce_ex__ is Tensor.__reduce_ex__ else NotImplemented
        if type(obj) is Size:
            return NamedGlobal("torch", "Size"), (tuple(obj),)
        if type(obj) is device:
            return NamedGlobal("torch", "device"), (str(obj),)
        if type(obj) is layout:
            return NamedGlobal("torch.serialization", "_get_layout"), (f"torch.{obj.name}",)
        if type(obj) is bytes and not obj:  # which protocol 2 makes by a call that PyTorch does not allow
            return codecs.encode, ("", "latin1")
        return NotImplemented

    def save_named(self, obj: Any) -> None:
        """Write the name of something of PyTorch's, or of an element type."""
        module, name = ("torch", obj.name) if isinstance(obj, dtype) else (obj.module, obj.name)
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    dispatch[NamedGlobal] = dispatch[dtype] = dispatch[type(bfloat16)] = save_named

    def _tensor(self, tensor: Tensor) -> tuple[Any, ...]:
        kind = tensor.dtype
        hooks: OrderedDict[Any, Any] = OrderedDict()
        state = dict(tensor.__dict__)
        if _is_parameter(tensor):
            parts = (tensor.detach(), bool(tensor.requires_grad), hooks)
            return (PARAMETER_WITH_STATE, (*parts, state)) if state else (PARAMETER, parts)
        rebuild, arguments = self._rebuild_call(tensor, kind, hooks)
        own = type(tensor).__module__.partition(".")[0] not in {"adjoint", display_name.package}
        if not own and not state:
            return rebuild, arguments
        return FROM_TYPE, (rebuild, type(tensor) if own else TENSOR, arguments, state)

    def _rebuild_call(self, tensor: Tensor, kind: dtype, hooks: Any) -> tuple[NamedGlobal, tuple[Any, ...]]:
        if tensor.is_meta:
            return REBUILD_META, (kind, tuple(tensor.shape), tuple(tensor.stride()), bool(tensor.requires_grad))
        array = tensor.numpy_view("save()")
        memory, offset, strides = self._memory_reference(array, kind)
        arguments = memory, offset, tuple(array.shape), strides, bool(tensor.requires_grad), hooks
        return (REBUILD, arguments) if kind.name in STORAGE_NAMES else (REBUILD_OF_BYTES, (*arguments, kind))

    def _storage_reference(self, storage: UntypedStorage) -> StorageReference:
        if isinstance(storage, TypedStorage):
            return self._memory_reference(storage.array, storage.dtype)[0]
        # The copy: memory that is bytes and numbers at once cannot be read
        own, *_ = self._memory_reference(storage.bytes().copy(), uint8)
        return StorageReference(("storage", UNTYPED_STORAGE, *own.identity[2:]))

    def _memory_reference(self, array: Any, kind: dtype) -> tuple[StorageReference, int, tuple[int, ...]]:
        """Return the storage of an array, its offset and its strides in elements."""
        memory = owner(array)
        whole = memory.dtype == array.dtype and (memory.flags.c_contiguous or memory.flags.f_contiguous)
        if not whole or array.size == 0:  # also memory of others, and what sees it as another type
            memory = array = np.ascontiguousarray(array).reshape(array.shape)
        key = self.keys.setdefault(id(memory), len(self.storages))
        if key == len(self.storages):
            self.alive_objects.append(memory)
            self.storages.append(memory.reshape(-1, order="A"))
        name = STORAGE_NAMES.get(kind.name)
        stored = STORAGE_TYPES[name] if name else UNTYPED_STORAGE
        count = self.storages[key].size * (1 if name else kind.itemsize)
        offset = (address(array) - address(memory)) // kind.itemsize if array.size else 0
        strides = element_strides(array) if array.size else dense_strides(tuple(max(n, 1) for n in array.shape))
        return StorageReference(("storage", stored, str(key), "cpu", count)), offset, strides


STORAGE_TYPES = {name: NamedGlobal("torch", name) for name in STORAGE_DTYPES}
UNTYPED_STORAGE = NamedGlobal("torch.storage", "UntypedStorage")
REBUILD = NamedGlobal("torch._utils", "_rebuild_tensor_v2")
REBUILD_META = NamedGlobal("torch._utils", "_rebuild_meta_tensor_no_storage")
REBUILD_OF_BYTES = NamedGlobal("torch._utils", "_rebuild_tensor_v3")
PARAMETER = NamedGlobal("torch._utils", "_rebuild_parameter")
PARAMETER_WITH_STATE = NamedGlobal("torch._utils", "_rebuild_parameter_with_state")
REBUILD_SPARSE = NamedGlobal("torch._utils", "_rebuild_sparse_tensor")
FROM_TYPE = NamedGlobal("torch._tensor", "_rebuild_from_type_v2")
TENSOR = NamedGlobal("torch", "Tensor")


def _is_parameter(tensor: Tensor) -> bool:
    if type(tensor) is Tensor:
        return False
    from adjoint.nn.module.parameter import Parameter

    return isinstance(tensor, Parameter)
