"""`adjoint._C`: names of PyTorch's C++ part that programs meet when they register ops; none does anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

from adjoint.compat.absent_device import NoStream, constant_functions
from adjoint.compat.module_alias import MissingClass
from adjoint.core.dtype.device import device as Device
from adjoint.core.dtype.dtype import dtype as Dtype
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.tensor.torch_function import DisableTorchFunctionGuard, disabled_torch_function_impl

globals().update(
    constant_functions(
        "adjoint._C",
        {
            "_get_tracing_state": None, "_is_tracing": False, "_jit_set_profiling_executor": False,
            "_jit_set_profiling_mode": False, "_log_api_usage_once": None,
        },
    )
)  # fmt: skip


def _are_functorch_transforms_active() -> bool:
    """Whether a batch is mapped over or a derivative of a function taken, here."""
    return mode.tracer is not None or mode.duals is not None or mode.transformed


_TensorBase = Tensor
_TensorMeta = type(Tensor)


class _Keys(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class DispatchKey(metaclass=_Keys):
    """Names of PyTorch's dispatcher: `DispatchKey.CPU` is its name."""


class PyTorchFileReader(metaclass=MissingClass):
    """PyTorch's reader of its files: `adjoint.load` reads them."""

    reason = "adjoint.load reads PyTorch's files"


_SCRIPTED = """
    AliasDb Argument Block CallStack Code CompilationUnit ErrorReport FunctionSchema Gradient Graph GraphExecutorState
    ListType Node OptionalType ScriptMethod StaticModule TensorType TupleType Type UnionType Use Value
"""
globals().update({name: MissingClass(name, (), {"__module__": "adjoint._C", "reason": "modules are not scripted"})
                  for name in _SCRIPTED.split()})  # fmt: skip


def _parse_to(
    *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> tuple[Any, Any, bool, Any]:
    """The arguments of `Tensor.to` by their names: device, dtype, non_blocking, memory_format."""
    for given in args:
        if isinstance(given, Tensor):
            device, dtype = given.device, given.dtype
        elif isinstance(given, Dtype):
            dtype = given
        elif isinstance(given, bool):
            non_blocking = given
        elif given is not None:
            device = given
    return None if device is None else Device(device), dtype, non_blocking, memory_format


_nn = SimpleNamespace(_parse_to=_parse_to)


class DispatchKeySet:
    """Some of these names."""

    def __init__(self, *keys: Any) -> None:
        self.keys = frozenset(keys)

    def __or__(self, other: Self) -> Self:
        return type(self)(*self.keys, *other.keys)

    def has(self, key: Any) -> bool:
        """True if the name is among them."""
        return key in self.keys


class _ExcludeDispatchKeyGuard(NoStream):
    """A block that runs as without."""


_disabled_torch_function_impl = disabled_torch_function_impl


class DisableTorchFunctionSubclass(DisableTorchFunctionGuard):
    """A block in which subclasses of Tensor are not asked what functions give."""


class DisableTorchFunction(DisableTorchFunctionGuard):
    """A block in which neither subclasses nor modes are asked."""

    def __init__(self) -> None:
        super().__init__(0)
