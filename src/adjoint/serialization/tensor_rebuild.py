"""Tensors from what PyTorch's pickles say of them: a storage, an offset, sizes and strides."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, dtype
from adjoint.core.tensor.as_strided import memory_span
from adjoint.core.tensor.meta import MetaArray
from adjoint.core.tensor.storage import share_storage
from adjoint.core.tensor.tensor import Tensor, init_slots, wrap
from adjoint.functions.creation.typed_storage import TypedStorage
from adjoint.serialization.inert_classes import find_inert_class, find_inert_function
from adjoint.serialization.numpy_values import NumpyType, fill_array, numpy_globals
from adjoint.serialization.safe_globals import full_name, plain_globals, user_globals
from adjoint.serialization.unpickler import Rules
from adjoint.serialization.zip_archive import FileError

RANK_LIMIT = 64  # NumPy's
SIZE_LIMIT = 2**63 - 1
WHOLE_OBJECT_ERROR = (
    "The file has {} whole: save its state_dict() instead, and give what load returns to load_state_dict()"
)
UNSUPPORTED_LAYOUT_ERROR = (
    "The file has a {} tensor, and there are strided ones only: make it dense in PyTorch and save that"
)
ADVICE_BY_PREFIX = {  # for names that files of PyTorch have
    "torch.nn.modules.": WHOLE_OBJECT_ERROR.format("a module of PyTorch"),
    "torch.optim.": WHOLE_OBJECT_ERROR.format("an optimizer or a schedule"),
    "adjoint.optim.": WHOLE_OBJECT_ERROR.format("an optimizer or a schedule"),
    "torch._utils._rebuild_sparse": UNSUPPORTED_LAYOUT_ERROR.format("sparse"),
    "torch._utils._rebuild_qtensor": UNSUPPORTED_LAYOUT_ERROR.format("quantised"),
    "torch._utils._rebuild_nested_tensor": UNSUPPORTED_LAYOUT_ERROR.format("nested"),
}
LAZY_BIT_UFUNCS: dict[str, Any] = {"conj": np.conjugate, "neg": np.negative}


class LoadedStorage(TypedStorage):
    """Memory from a file, one-dimensional, which several tensors may share; `dtype` is None where only they know it.

    Tensors on it are on the device "meta" if it is `absent`.
    """

    dtype: Any = None

    def __init__(self, key: str, memory: Any, kind: dtype | None, absent: bool = False) -> None:
        super().__init__(memory)
        self.key = key
        self.absent = absent
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
        """The memory with what PyTorch had left to do, the conjugation or the sign: done once for all views of it."""
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
            self.resolved_copies[way] = LoadedStorage(self.key, memory, kind, self.absent)
        return self.resolved_copies[way]


def make_rules(persistent_load: Callable[[Any], Any], encoding: str, trusted: bool) -> Rules:
    """What the pickle of a file of tensors may do.

    `trusted` files may also name classes that are imported already and whose instances run nothing when they are made.
    """
    (named, calls), (arrays, makers) = plain_globals(), numpy_globals()
    tensors = rebuilders()
    named |= tensors | arrays
    parameter = named["torch.nn.Parameter"]
    calls |= {rebuild: rebuild for rebuild in tensors.values() if rebuild is not parameter} | makers
    news = dict(calls) | {parameter: _rebuild_parameter}
    allowed = {name: given for name, given in user_globals().items() if name not in arrays}  # read with more care
    named |= allowed
    for given in allowed.values():
        calls[given] = given
        if isinstance(given, type):
            news[given] = _make_bare_constructor(given)

    def find(module: str, name: str) -> Any:
        full = full_name(module, name)
        if full in named:
            return named[full]
        if trusted and (found := find_inert_class(module, name)) is not None:
            news[found] = calls[found] = _make_bare_constructor(found)
            return found
        if trusted and (function := find_inert_function(module, name)) is not None:
            return function
        refused = _refusal_message(full, not trusted and find_inert_class(module, name) is not None)
        raise FileError(refused if trusted else f"Weights only load failed. {refused}")

    def build(instance: Any, state: Any) -> Any:
        if type(instance) is NumpyType:
            instance.set_order(state)
            return instance
        if type(instance) is np.ndarray:
            fill_array(instance, state)
            return instance
        if type(instance) is OrderedDict or type(instance) in news:
            return _set_instance_state(instance, state, slotted=type(instance) in allowed.values())
        raise FileError(f"the pickle sets the state of a {type(instance).__name__}, which is not allowed")

    return Rules(find, calls, news, build, persistent_load, encoding)


def rebuilders() -> dict[str, Callable[..., Any]]:
    """What every file may name to have its tensors and parameters made."""
    from adjoint.nn.module.parameter import Parameter

    return {
        "torch._utils._rebuild_tensor": _rebuild_tensor,
        "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
        "torch._utils._rebuild_tensor_v3": _rebuild_tensor_of_bytes,
        "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta_tensor,
        "torch._utils._rebuild_parameter": _rebuild_parameter,
        "torch._utils._rebuild_parameter_with_state": _rebuild_parameter_with_state,
        "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
        "torch.nn.parameter.Parameter": Parameter,
        "torch.nn.Parameter": Parameter,
    }


def _refusal_message(full: str, inert: bool) -> str:
    """Why the file may not name this, and what to do; `inert` if a trusted file might."""
    name = full.removeprefix("builtins.")[:200]
    refused = f"Unsupported global: GLOBAL {name} was not an allowed global by default, so that no file can run code. "
    for part, advice in ADVICE_BY_PREFIX.items():
        if name.startswith(part):
            return refused + advice
    other = "load(..., weights_only=False) allows classes that are imported and run nothing, as this. " if inert else ""
    allowing = (
        f"If you trust it with any arguments, use adjoint.serialization.add_safe_globals([{name}]) or the context "
        f"manager adjoint.serialization.safe_globals([{name}])"
    )
    return refused + other + allowing


def _make_bare_constructor(kind: Any) -> Callable[..., Any]:
    def make(*arguments: Any) -> Any:
        return kind.__new__(kind, *arguments)

    return make


def _set_instance_state(instance: Any, state: Any, slotted: bool) -> Any:
    """`instance` with its attributes, as pickles set them; `slotted` ones through descriptors of its class."""
    if hasattr(type(instance), "__setstate__"):
        instance.__setstate__(state)
        return instance
    slots = None
    if slotted and isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    for attributes in (state, slots):
        if attributes is not None and (type(attributes) is not dict or any(type(k) is not str for k in attributes)):
            raise FileError("the state of an object is something else than a dict of its attributes")
    if state:
        instance.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(instance, name, value)
    return instance


def _rebuild_tensor(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any = False, hooks: Any = None,
    metadata: Any = None,
) -> Tensor:  # fmt: skip
    if not isinstance(storage, LoadedStorage) or storage.dtype is None:
        raise FileError("a tensor's storage is something else, or of no type")
    tensor = _view_storage(storage.resolve_lazy_bits(storage.dtype, metadata), storage.dtype, offset, size, stride)
    return tensor.requires_grad_() if requires_grad is True else tensor


def _rebuild_tensor_of_bytes(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, kind: Any, metadata: Any = None
) -> Tensor:
    if not isinstance(storage, LoadedStorage) or not isinstance(kind, dtype):
        raise FileError("a tensor's storage or type is something else")
    DTYPES.find(kind.numpy)
    tensor = _view_storage(storage.resolve_lazy_bits(kind, metadata), kind, offset, size, stride)
    return tensor.requires_grad_() if requires_grad is True else tensor


def _rebuild_meta_tensor(kind: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    """A tensor of the device "meta"; what it is without values lies in the order of its dimensions."""
    if not isinstance(kind, dtype):
        raise FileError("the type of a tensor without values is something else")
    if not isinstance(size, tuple) or any(type(n) is not int or not 0 <= n <= SIZE_LIMIT for n in size):
        raise FileError("a tensor without values has sizes that are no integers from 0 to 2**63 - 1")
    if len(size) > RANK_LIMIT or math.prod(n for n in size if n) * kind.itemsize > SIZE_LIMIT:
        raise FileError(f"a tensor without values has {len(size)} sizes, or more elements than 63 bits count")
    DTYPES.find(kind.numpy)
    tensor = wrap(MetaArray(size, kind.numpy))
    return tensor.requires_grad_() if requires_grad is True else tensor


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
    if storage.absent:
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


def _rebuild_parameter(data: Any = None, requires_grad: Any = True, hooks: Any = None) -> Any:
    from adjoint.nn.module.parameter import Parameter

    if not isinstance(data, Tensor):
        raise FileError("a parameter is made of something else than a tensor")
    return Parameter(data.detach(), requires_grad is True)


def _rebuild_parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Any:
    return _set_attributes(_rebuild_parameter(data, requires_grad), state)


def _rebuild_from_type(rebuild: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor with attributes, or of a subclass, which must have been allowed."""
    if rebuild not in (
        _rebuild_tensor,
        _rebuild_tensor_of_bytes,
        _rebuild_meta_tensor,
        _rebuild_parameter,
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
