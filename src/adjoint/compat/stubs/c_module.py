"""`adjoint._C`: names of PyTorch's C++ part and of its dispatcher that programs use to register ops."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any, Self

from adjoint.compat.absent_device import NoStream, constant_functions
from adjoint.compat.module_alias import MissingClass
from adjoint.core.dtype.device import device as Device
from adjoint.core.dtype.dtype import dtype as Dtype
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.tensor.torch_function import DisableTorchFunctionGuard, disabled_torch_function_impl
from adjoint.core.typing import Function

_NONE = "_get_tracing_state _jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu _log_api_usage_once"
_FALSE = """
    _is_tracing _jit_can_fuse_on_cpu _jit_can_fuse_on_gpu _jit_set_nvfuser_enabled _jit_set_nvfuser_guard_mode
    _jit_set_profiling_executor _jit_set_profiling_mode _jit_set_texpr_fuser_enabled _jit_texpr_fuser_enabled
"""
_ANSWERS = dict.fromkeys(_NONE.split()) | dict.fromkeys(_FALSE.split(), False)
_ANSWERS |= {"_get_accelerator": Device("cpu"), "_get_default_device": "cpu"}
_ANSWERS |= {"_get_privateuse1_backend_name": "privateuseone", "_set_math_sdp_allow_fp16_bf16_reduction": None}
globals().update(constant_functions("adjoint._C", _ANSWERS))


def _are_functorch_transforms_active() -> bool:
    """Return whether vmap, a derivative of a function, or a tracer is active."""
    return mode.interpreter is not None or mode.forward_levels is not None or mode.in_transform


_TensorBase = Tensor
_TensorMeta = type(Tensor)


class _Keys(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class DispatchKey(metaclass=_Keys):
    """Names of PyTorch's dispatcher: `DispatchKey.CPU` is the string 'CPU'."""


class PyTorchFileReader(metaclass=MissingClass):
    """PyTorch's reader of its files, in whose place `adjoint.load` reads them."""

    reason = "adjoint.load reads PyTorch's files"


_SCRIPTED = """
    AliasDb Argument Block CallStack Code CompilationUnit ErrorReport FunctionSchema Gradient Graph GraphExecutorState
    ListType Node OptionalType ScriptMethod StaticModule TensorType TupleType Type UnionType Use Value
"""
_ABOUT_SCRIPTED = {"__module__": "adjoint._C", "reason": "modules are not scripted"}
globals().update({name: MissingClass(name, (), dict(_ABOUT_SCRIPTED)) for name in _SCRIPTED.split()})


def _parse_to(
    *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> tuple[Any, Any, bool, Any]:
    """Return the arguments of `Tensor.to` as (device, dtype, non_blocking, memory_format)."""
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


class HiddenModule(ModuleType):
    """Module of PyTorch's C++ part: functions of a public one, under names with a prefix."""

    def __init__(self, name: str, home: str, prefix: str = "", **others: Function) -> None:
        super().__init__(f"adjoint._C.{name}", f"PyTorch's name of functions of adjoint.{home}.")
        self._home, self._prefix = home, prefix
        vars(self).update(others)

    def __getattr__(self, name: str) -> Function:
        if name.startswith("__") or not name.startswith(self._prefix):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        public = name.removeprefix(self._prefix)
        found: Function = getattr(import_module(f"adjoint.{self._home}"), HIDDEN_NAMES.get(public, public))
        return found


HIDDEN_NAMES = {"log_sigmoid": "logsigmoid"}
_nn = HiddenModule("_nn", "nn.functional", _parse_to=_parse_to)
_linalg = HiddenModule("_linalg", "linalg", "linalg_")
_fft = HiddenModule("_fft", "fft", "fft_")
_special = HiddenModule("_special", "special", "special_")


class DispatchKeySet:
    """Set of names of the dispatcher."""

    def __init__(self, *keys: Any) -> None:
        self.keys = frozenset(keys)

    def __or__(self, other: Self) -> Self:
        return type(self)(*self.keys, *other.keys)

    def has(self, key: Any) -> bool:
        """Return whether the set has the name."""
        return key in self.keys


class _ExcludeDispatchKeyGuard(NoStream):
    """Context that changes nothing."""


_disabled_torch_function_impl = disabled_torch_function_impl


class DisableTorchFunctionSubclass(DisableTorchFunctionGuard):
    """Context in which functions do not ask subclasses of Tensor."""


class DisableTorchFunction(DisableTorchFunctionGuard):
    """Context in which functions ask neither subclasses nor modes."""

    def __init__(self) -> None:
        super().__init__(0)


class TorchDispatchMode(NoStream):
    """Context of `adjoint.utils._python_dispatch` that sees no ops: its block runs unchanged."""

    def __init__(self, _dispatch_key: object = None) -> None:
        super().__init__()


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Return False: tensors hold their elements themselves."""
    return False
