"""Tensors rebuilt as PyTorch's pickles describe them, by a storage, an offset, sizes and strides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, dtype
from adjoint.core.tensor.as_strided import memory_span
from adjoint.core.tensor.memory_format import (
    layout,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from adjoint.core.tensor.meta import MetaArray
from adjoint.core.tensor.storage import share_storage
from adjoint.core.tensor.tensor import Tensor, init_slots, wrap
from adjoint.core.typing import Function
from adjoint.functions.creation.typed_storage import TypedStorage
from adjoint.serialization.zip_archive import FileError

RANK_LIMIT = 64  # NumPy's
SIZE_LIMIT = 2**63 - 1
LAYOUTS = {f"torch.{kind.name}": kind for kind in (sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, strided)}
LAZY_BIT_UFUNCS: dict[str, Any] = {"conj": np.conjugate, "neg": np.negative}


class LoadedStorage(TypedStorage):
    """Memory from a file, one-dimensional, which several tensors may share; `dtype` is None where only they know it.

    Tensors on it are on the device "meta" if it is `absent`.
    """

    dtype: Any = None

    def __init__(self, key: str, memory: Any, kind: dtype | None, absent: bool = False) -> None:
        super().__init__(memory)
        self.key = key
        self.is_meta = absent
        self.memory = memory
        self.dtype = kind
        self.seen: Tensor | None = None  # the first tensor on it
        self.bools_are_sound = False
        self.resolved_copies: dict[Any, LoadedStorage] = {}  # conjugated, of the other sign, or both, by element type

    def check_bools(self, kind: dtype | None) -> None:
        """Raise FileError where memory of bools holds what is none."""
        if kind is not None and kind.name == "bool" and not self.bools_are_sound:
            if self.memory.size and self.memory.view(np.uint8).max() > 1:
                raise FileError(f"storage {self.key!r}: a byte of a bool is neither 0 nor 1")
            self.bools_are_sound = True

    def resolve_lazy_bits(self, kind: dtype, metadata: Any) -> LoadedStorage:
        """Return the storage with the conjugation or sign that PyTorch left to do, done once for all views of it."""
        wanted = [name for name in LAZY_BIT_UFUNCS if isinstance(metadata, dict) and metadata.get(name) is True]
        if not wanted:
            return self
        way = kind.name, *wanted
        if way not in self.resolved_copies:
            if len(self.resolved_copies) >= len(LAZY_BIT_UFUNCS) + 1:
                raise FileError(f"storage {self.key!r}: its conjugate or negative is asked for in too many types")
            whole = self.memory.nbytes // kind.itemsize * kind.itemsize
            memory = self.memory.view(np.uint8)[:whole].view(kind.numpy)
            for name in wanted:
                memory = LAZY_BIT_UFUNCS[name](memory)
            self.resolved_copies[way] = LoadedStorage(self.key, memory, kind, self.is_meta)
        return self.resolved_copies[way]


def rebuilders() -> dict[str, Function]:
    """Return the functions that rebuild tensors and parameters, by the names that every file may use."""
    from adjoint.nn.module.parameter import Parameter

    return {
        "torch._utils._rebuild_tensor": _rebuild_tensor,
        "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
        "torch._utils._rebuild_tensor_v3": _rebuild_tensor_of_bytes,
        "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta_tensor,
        "torch._utils._rebuild_sparse_tensor": _rebuild_sparse_tensor,
        "torch.serialization._get_layout": _find_layout,
        "torch._utils._rebuild_parameter": rebuild_parameter,
        "torch._utils._rebuild_parameter_with_state": _rebuild_parameter_with_state,
        "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
        "torch.nn.parameter.Parameter": Parameter,
        "torch.nn.Parameter": Parameter,
    }


def _rebuild_tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: object = None,
    metadata: Any = None,
) -> Tensor:
    if not isinstance(storage, LoadedStorage) or storage.dtype is None:
        raise FileError("a tensor's storage is something else, or of no type")
    tensor = _view_storage(storage.resolve_lazy_bits(storage.dtype, metadata), storage.dtype, offset, size, stride)
    return tensor.requires_grad_() if requires_grad is True else tensor


def _rebuild_tensor_of_bytes(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: object,
    kind: Any,
    metadata: Any = None,
) -> Tensor:
    if not isinstance(storage, LoadedStorage) or not isinstance(kind, dtype):
        raise FileError("a tensor's storage or type is something else")
    DTYPES.find(kind.numpy)
    tensor = _view_storage(storage.resolve_lazy_bits(kind, metadata), kind, offset, size, stride)
    return tensor.requires_grad_() if requires_grad is True else tensor


def _rebuild_meta_tensor(kind: Any, size: Any, stride: object, requires_grad: Any) -> Tensor:
    """Return a tensor of the device "meta", laid out in the order of its dimensions."""
    if not isinstance(kind, dtype):
        raise FileError("the type of a tensor without values is something else")
    if not isinstance(size, tuple) or any(type(n) is not int or not 0 <= n <= SIZE_LIMIT for n in size):
        raise FileError("a tensor without values has sizes that are no integers from 0 to 2**63 - 1")
    if len(size) > RANK_LIMIT or math.prod(n for n in size if n) * kind.itemsize > SIZE_LIMIT:
        raise FileError(f"a tensor without values has {len(size)} sizes, or more elements than 63 bits count")
    DTYPES.find(kind.numpy)
    tensor = wrap(MetaArray(size, kind.numpy))
    return tensor.requires_grad_() if requires_grad is True else tensor


def _find_layout(name: object) -> layout:
    """Return the layout that a file calls `torch.sparse_coo`."""
    found = LAYOUTS.get(name) if isinstance(name, str) else None
    if found is None:
        raise FileError(f"a tensor has the unknown layout {name!r}")
    return found


def _rebuild_sparse_tensor(kind: object, parts: object) -> Tensor:
    """Return a sparse tensor of checked indices and values. Raises FileError for parts that contradict each other."""
    from adjoint.functions.sparse.creation import sparse_compressed_tensor, sparse_coo_tensor

    if not isinstance(parts, tuple) or len(parts) not in (3, 4):
        raise FileError("a sparse tensor has other parts than indices, values and a size")
    tensors = parts[:2] if kind is sparse_coo else parts[:3]
    size = parts[len(tensors)] if len(parts) > len(tensors) else None
    if type(kind) is not layout or not all(isinstance(x, Tensor) for x in tensors) or not isinstance(size, tuple):
        raise FileError("a sparse tensor has other parts than indices, values and a size")
    try:
        if kind is sparse_coo:
            return sparse_coo_tensor(parts[0], parts[1], size, is_coalesced=parts[3:] == (True,) or None)
        return sparse_compressed_tensor(parts[0], parts[1], parts[2], size, layout=kind)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise FileError(f"a sparse tensor contradicts itself: {error}") from error


def _view_storage(storage: LoadedStorage, kind: dtype, offset: Any, size: Any, stride: Any) -> Tensor:
    where = f"a tensor in storage {storage.key!r}"
    for numbers in (size, stride, (offset,)):
        if not isinstance(numbers, tuple) or any(type(n) is not int or not 0 <= n <= SIZE_LIMIT for n in numbers):
            raise FileError(f"{where}: its sizes, strides and offset must be integers from 0 to 2**63 - 1")
    if len(size) != len(stride) or len(size) > RANK_LIMIT:
        raise FileError(
            f"{where}: it has {len(size)} sizes and {len(stride)} strides; at most {RANK_LIMIT} are supported"
        )
    if math.prod(n for n in size if n) * kind.itemsize > SIZE_LIMIT:
        raise FileError(f"{where}: the size of its {len(size)} dimensions overflows 64 bits")
    whole = storage.memory.nbytes // kind.itemsize
    needed = memory_span(size, stride, offset)
    if needed > whole:
        raise FileError(f"{where}: it needs {needed} elements, but the storage has {whole}")
    storage.check_bools(kind)
    DTYPES.find(kind.numpy)
    if storage.is_meta:
        return wrap(MetaArray(size, kind.numpy))
    if needed:
        strides = tuple(step * kind.itemsize for step in stride)
        tensor = wrap(np.ndarray(size, kind.numpy, storage.memory, offset * kind.itemsize, strides))
    else:
        tensor = wrap(np.empty(size, kind.numpy))
    if storage.seen is None:
        storage.seen = tensor
    else:
        share_storage(storage.seen, tensor)
    return tensor


def rebuild_parameter(data: Any = None, requires_grad: Any = True, hooks: object = None) -> Any:
    """Return the parameter that a pickle describes by a tensor."""
    from adjoint.nn.module.parameter import Parameter

    if not isinstance(data, Tensor):
        raise FileError("a parameter is made of something else than a tensor")
    return Parameter(data.detach(), requires_grad is True)


def _rebuild_parameter_with_state(data: Any, requires_grad: Any, hooks: object, state: Any) -> Any:
    return _set_attributes(rebuild_parameter(data, requires_grad), state)


def _rebuild_from_type(rebuild: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """Return a tensor with attributes, or of a subclass, which must have been allowed."""
    if rebuild not in (
        _rebuild_tensor,
        _rebuild_tensor_of_bytes,
        _rebuild_meta_tensor,
        rebuild_parameter,
    ) or not isinstance(arguments, tuple):
        raise FileError("a tensor is rebuilt by what does not rebuild tensors")
    tensor = rebuild(*arguments)
    if isinstance(kind, type) and issubclass(kind, Tensor) and not isinstance(tensor, kind):
        plain, tensor = tensor, init_slots(object.__new__(kind), tensor.array)
        share_storage(plain, tensor)
        if plain.requires_grad:
            tensor.requires_grad_()
    return _set_attributes(tensor, state)


def _set_attributes(tensor: Any, state: Any) -> Any:
    parts = state if isinstance(state, tuple) else (state,)
    for attributes in parts:
        if attributes is None:
            continue
        if type(attributes) is not dict or any(type(name) is not str for name in attributes):
            raise FileError("the attributes of a tensor are something else than a dict")
        tensor.__dict__.update(attributes)
    return tensor
