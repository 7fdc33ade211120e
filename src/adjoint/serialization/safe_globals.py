"""Classes and functions that files may name: plain ones, those that users allow, and classes that run nothing."""

from __future__ import annotations

import codecs
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from adjoint.core.dtype import dtype as types
from adjoint.core.dtype.device import device
from adjoint.core.runtime.lazy_import import module_name_slot
from adjoint.core.tensor.memory_format import strided
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function
from adjoint.serialization.dict_keys import KeyHashes
from adjoint.serialization.zip_archive import FileError

SafeGlobal = Any  # a class or function, or a pair of one and the name under which files have it

BLOCKED_MODULES = {"sys", "os", "posix", "nt"}  # PyTorch's list, whatever users allow
# `builtins` under the name that pickles of protocol 2 have for it, and the like
PYTHON2_MODULE_NAMES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
TYPES = {kind.name: kind for kind in (*types.DTYPES.values(), types.bfloat16)}
STORAGE_PREFIXES = "Bool Byte Char Short Int Long Half BFloat16 Float Double ComplexFloat ComplexDouble"
STORAGE_TYPE_NAMES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
STORAGE_DTYPES = {
    f"{prefix}Storage": TYPES[name]
    for prefix, name in zip(STORAGE_PREFIXES.split(), STORAGE_TYPE_NAMES.split(), strict=True)
}
# What Python or a pickle calls by itself, and what would make an instance more than data
ACTING_METHODS = ("__del__", "__setstate__", "__new__")
HEAP_TYPE_FLAG = 1 << 9  # CPython sets this flag of a type on the heap
TENSOR_FUNCTION_FOLDERS = {"functions", "ops"}  # their functions compute tensors, and do nothing else
_allowed: list[SafeGlobal] = []


class StorageType:
    """Stands for PyTorch's class of the storages of one element type; None for one of bytes."""

    def __init__(self, dtype: types.dtype | None) -> None:
        self.dtype = dtype


UNTYPED_STORAGE = StorageType(None)


def add_safe_globals(safe_globals: list[SafeGlobal]) -> None:
    """Let files name these classes and functions, and so have `load` call them: only what you trust with any arguments.

    Each is named as it says itself, or is a pair (it, "module.name").
    """
    _allowed.extend(given for given in safe_globals if given not in _allowed)


def get_safe_globals() -> list[SafeGlobal]:
    """Return the classes and functions of `add_safe_globals`."""
    return list(_allowed)


def clear_safe_globals() -> None:
    """Forget the classes and functions of `add_safe_globals`."""
    _allowed.clear()


@contextmanager
def safe_globals(safe_globals: list[SafeGlobal]) -> Iterator[None]:
    """Let files name these classes and functions within a `with` block."""
    added = [given for given in safe_globals if given not in _allowed]
    add_safe_globals(added)
    try:
        yield
    finally:
        for given in added:
            if given in _allowed:
                _allowed.remove(given)


def user_globals() -> dict[str, Any]:
    """Return the globals that users allow, by full name. Raises ValueError or TypeError for a malformed pair."""
    named = {}
    for given in _allowed:
        if not isinstance(given, tuple):
            named[f"{given.__module__}.{given.__qualname__}"] = given
            continue
        if len(given) != 2:
            raise ValueError(f"add_safe_globals: a pair (global, full name) was expected, but got {len(given)} items")
        if type(given[1]) is not str:
            raise TypeError(f"add_safe_globals: the full name must be a str, but got {type(given[1]).__name__}")
        named[given[1]] = given[0]
    return named


def plain_globals() -> tuple[dict[str, Any], dict[Any, Function]]:
    """Return the globals that every file may name, and the functions that stand for those it may call."""
    named: dict[str, Any] = {
        "collections.OrderedDict": OrderedDict,
        "collections.Counter": Counter,
        "builtins.set": set,
        "builtins.frozenset": frozenset,
        "builtins.bytearray": bytearray,
        "builtins.bytes": bytes,
        "builtins.complex": complex,
        "_codecs.encode": codecs.encode,
        "torch.Size": Size,
        "torch.device": device,
        "torch.Tensor": Tensor,
        "torch.serialization._get_layout": _find_layout,
        "torch.storage.UntypedStorage": UNTYPED_STORAGE,
        "torch.UntypedStorage": UNTYPED_STORAGE,
    }
    named |= {f"torch.{name}": kind for name, kind in TYPES.items()}
    named |= {f"torch.{name}": StorageType(kind) for name, kind in STORAGE_DTYPES.items()}
    calls: dict[Any, Function] = {
        OrderedDict: _make_ordered_dict,
        Counter: _make_counter,
        set: _make_set,
        frozenset: lambda items=(): frozenset(_make_set(items)),
        bytearray: _make_bytearray,
        bytes: _make_empty_bytes,
        complex: complex,
        codecs.encode: _encode,
        Size: lambda items=(): Size([_check_integer(item) for item in _check_sequence(items)]),
        device: lambda *spec: device(),  # the CPU, where the tensors go, whatever device the file names
        _find_layout: _find_layout,
    }
    return named, calls


def find_inert_class(module: str, name: str) -> Any:
    """Return the class of this name, if it is imported already and its instances are data only; else None.

    Network modules and optimizers are such classes, and plain ones whose instances cannot be called and run nothing
    when they are made or dropped.
    """
    cls = _find_imported(module, name)
    if not isinstance(cls, type) or not all(base.__flags__ & HEAP_TYPE_FLAG for base in cls.__mro__[:-1]):
        return None
    is_module = _is_subclass_of(cls, "adjoint.nn.module.module", "Module")
    is_known = is_module or _is_subclass_of(cls, "adjoint.optim.step.optimizer", "Optimizer")
    bases = [base for base in cls.__mro__[:-1] if not (is_known and base.__module__.startswith("adjoint."))]
    methods = ACTING_METHODS if is_module else (*ACTING_METHODS, "__call__")
    acts = any(method in vars(base) for base in bases for method in methods)
    return None if acts or not any("__dict__" in vars(base) for base in cls.__mro__) else cls


def find_inert_function(module: str, name: str) -> Any:
    """Return the function of this name, if it is one of the library's functions of tensors; else None."""
    package, *folders = module.split(".")
    if package != "adjoint" or (TENSOR_FUNCTION_FOLDERS.isdisjoint(folders) and folders != ["nn", "functional"]):
        return None
    function = _find_imported(module, name)
    return function if isinstance(function, FunctionType) else None


def _find_imported(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module_name_slot.call(module))
    for part in name.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found


def _is_subclass_of(kind: type, module: str, name: str) -> bool:
    base = vars(sys.modules[module]).get(name) if module in sys.modules else None
    return base is not None and issubclass(kind, base)


def full_name(module: str, name: str) -> str:
    """Return the name by which the lists have a global. Raises FileError for modules that no list can allow."""
    module = PYTHON2_MODULE_NAMES.get(module, module)
    if module.partition(".")[0] in BLOCKED_MODULES:
        raise FileError(f"unsupported GLOBAL {module}.{name} whose module {module} is blocked: it could run code")
    return f"{module}.{name}"


def _make_ordered_dict(items: Any = ()) -> OrderedDict[Any, Any]:
    items_by_key: OrderedDict[Any, Any] = OrderedDict()
    hashes = KeyHashes()
    for pair in _check_sequence(items):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise FileError("an OrderedDict is made of something else than pairs")
        hashes.check_key(pair[0])
        items_by_key[pair[0]] = pair[1]
    return items_by_key


def _make_counter(items: Any = ()) -> Counter[Any]:
    if not isinstance(items, dict):
        raise FileError("a Counter is made of something else than a dict")
    counter: Counter[Any] = Counter()
    for key, count in items.items():  # whatever type the counts are of
        counter[key] = count
    return counter


def _make_set(items: Any = ()) -> set[Any]:
    hashes = KeyHashes()
    for item in _check_sequence(items):
        hashes.check_key(item)
    return set(items)


def _make_bytearray(data: Any = b"", encoding: Any = "latin1") -> bytearray:
    if not isinstance(data, (bytes, bytearray)):
        data = _encode(data, encoding)
    return bytearray(data)


def _make_empty_bytes(*data: Any) -> bytes:
    if data:
        raise FileError("bytes are made by a call")
    return b""


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1", "ascii", "utf-8", "utf8"):
        raise FileError("bytes are made of something else than text")
    return text.encode(encoding)


def _find_layout(name: Any) -> Any:
    if name != "torch.strided":
        raise FileError(f"the file has tensors of the layout {str(name)[:100]}; only strided ones are supported")
    return strided


def _check_sequence(items: Any) -> Any:
    if not isinstance(items, (list, tuple, set, frozenset)):
        raise FileError(f"a collection is made of a {type(items).__name__}")
    return items


def _check_integer(value: Any) -> int:
    if type(value) is not int:
        raise FileError(f"an integer was expected, but a {type(value).__name__} was found")
    return value
