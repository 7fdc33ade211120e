"""Loading a state dict into a module and all its parts."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from adjoint.core.graph.hooks import RemovableHandle
from adjoint.core.runtime.explanation_slot import explain_errors
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, StateDict
from adjoint.nn.module.hooks import WeakModuleHook, register_hook
from adjoint.nn.module.module_state import AnyModule
from adjoint.nn.module.parameter import Parameter
from adjoint.nn.module.state_dict import EXTRA_STATE_KEY, own_tensors, set_extra_state

ASSIGN_KEY = "assign_to_params_buffers"
META_COPY_WARNING = (
    "for {}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, which is a "
    "no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their corresponding key in "
    "the module instead of copying them in place?)"
)


class IncompatibleKeys(NamedTuple):
    """Names that the state dict lacks, and names in it for which the module has no place."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class LoadErrors(list[str]):
    """Errors of a state dict, and the writes to make once there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[Callable[[], object]] = []

    def write(self) -> None:
        """Make the writes."""
        with ModeScope(recording=False):
            for write in self.writes:
                write()
        self.writes.clear()


@explain_errors
def load_state_dict(
    self: AnyModule, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
) -> IncompatibleKeys:
    """Copy the tensors of a state dict into this module and its submodules.

    The result lists the `missing_keys` and the `unexpected_keys`. An error leaves the module unchanged. But load hooks,
    and modules that override the loading, see parts that are already loaded.

    Args:
        state_dict: mapping from dotted names to tensors.
        strict: False to accept missing and unexpected names. Default: True.
        assign: True to make the given tensors the module's own instead of a copy. Default: False.

    Raises: RuntimeError for other shapes, values that are not tensors and, if strict, names that differ; TypeError
    unless `state_dict` is a mapping.

    Example:
        >>> a, b = nn.Linear(2, 1), nn.Linear(2, 1)
        >>> a.load_state_dict(b.state_dict())
        <All keys matched successfully>
        >>> bool((a.weight == b.weight).all())
        True
    """
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    given: Any = OrderedDict(state_dict)  # hooks may change it
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is not None:
        given._metadata = metadata
    keys, faults = IncompatibleKeys([], []), LoadErrors()
    _load_recursively(self, given, "", metadata or {}, assign, keys, faults)
    if strict:
        kinds = (("Missing", keys.missing_keys), ("Unexpected", keys.unexpected_keys))
        described = ((kind, ", ".join(f'"{name}"' for name in names)) for kind, names in kinds)
        faults[:0] = [f"{kind} key(s) in state_dict: {names}. " for kind, names in described if names]
    if faults:
        raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(faults))
    faults.write()
    return keys


def _load_recursively(
    module: AnyModule, given: StateDict, prefix: str, metadata: Mapping[str, StateDict], assign: bool,
    keys: IncompatibleKeys, faults: LoadErrors,
) -> None:  # fmt: skip
    local = dict(metadata.get(prefix[:-1], ()), **({ASSIGN_KEY: True} if assign else {}))
    found = faults if type(module)._load_from_state_dict is load_own_state else list[str]()
    module._load_from_state_dict(given, prefix, local, True, keys.missing_keys, keys.unexpected_keys, found)
    if found is not faults:
        faults.extend(found)
    for name, child in module._modules.items():
        if child is not None:
            below = f"{prefix}{name}."
            part = {key: value for key, value in given.items() if key.startswith(below)}
            _load_recursively(child, part, below, metadata, assign, keys, faults)
    hooks = list(module._load_state_dict_post_hooks.values())
    if hooks and not faults:
        faults.write()
    for hook in hooks:
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new values, "
                "if incompatible_keys need to be modified, it should be done inplace."
            )


def load_own_state(
    self: AnyModule,
    state_dict: StateDict,
    prefix: str,
    local_metadata: dict[str, Any],
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """Load the module's own state, without that of its parts; what is wrong is added to the lists.

    Subclasses may change `state_dict` on its way here, looking at `local_metadata["version"]`.
    """
    for hook in list(self._load_state_dict_pre_hooks.values()):
        hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
    faults = error_msgs if isinstance(error_msgs, LoadErrors) else LoadErrors()
    own = dict(own_tensors(self))
    for name, tensor in own.items():
        key = prefix + name
        if key not in state_dict:
            if strict and (local_metadata.get("version") or 1) >= self._state_key_versions.get(name, 1):
                missing_keys.append(key)
            continue
        value = state_dict[key]
        if isinstance(value, Tensor) and len(value.array.shape) == 1 and not tensor.array.shape:
            value = value[0]  # from when there were no tensors without dimensions
        fault = _describe_value_error(key, value, tensor)
        if fault is None:
            put = _assign if local_metadata.get(ASSIGN_KEY) else _copy
            if put is _copy and tensor.is_meta and not value.is_meta:
                warnings.warn(META_COPY_WARNING.format(key), stacklevel=2)
            faults.writes.append(partial(put, self, name, value))
        else:
            error_msgs.append(fault)
    extra = prefix + EXTRA_STATE_KEY
    has_extra = type(self).set_extra_state is not set_extra_state
    if has_extra and extra in state_dict:
        set_extra = partial(self.set_extra_state, state_dict[extra])
        names = [key.removeprefix(prefix).partition(".") for key in state_dict if key.startswith(prefix)]
        has_unknown_parts = any(dot and self._modules.get(name) is None for name, dot, _ in names)
        if has_unknown_parts and not isinstance(state_dict[extra], Tensor):  # the extra state may bring these parts
            set_extra()
        else:
            faults.writes.append(set_extra)
    elif strict and has_extra:
        missing_keys.append(extra)
    if strict:
        own_names = own.keys() | ({EXTRA_STATE_KEY} if has_extra else set())
        for key in state_dict:
            if key.startswith(prefix):
                name, is_of_part, _ = key.removeprefix(prefix).partition(".")
                if self._modules.get(name) is None if is_of_part else name not in own_names:
                    unexpected_keys.append(key)
    if faults is not error_msgs:
        faults.write()


def _describe_value_error(name: str, value: object, own: Tensor) -> str | None:
    if not isinstance(value, Tensor):
        return (
            f'While copying the parameter named "{name}", expected torch.Tensor or Tensor-like object from checkpoint '
            f"but received {type(value)}"
        )
    if value.array.shape != own.array.shape:
        return (
            f"size mismatch for {name}: copying a param with shape {value.shape} from checkpoint, the shape in "
            f"current model is {own.shape}."
        )
    return None


def _copy(module: AnyModule, name: str, tensor: Tensor) -> None:
    getattr(module, name).copy_(tensor)


def _assign(module: AnyModule, name: str, tensor: Tensor) -> None:
    own = getattr(module, name)
    if isinstance(own, Parameter):
        asks = own.requires_grad
        tensor = tensor.requires_grad_(asks) if isinstance(tensor, Parameter) else Parameter(tensor, requires_grad=asks)
    setattr(module, name, tensor)


def register_load_state_dict_pre_hook(self: AnyModule, hook: Function) -> RemovableHandle:
    """Let a hook see, and change, the state dict before it is loaded.

    `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`.
    """
    return register_any_pre_hook(self, hook, with_module=True)


def register_any_pre_hook(self: AnyModule, hook: Function, with_module: bool = False) -> RemovableHandle:
    """Register a hook before loading, which gets the module only `with_module`."""
    return register_hook(self, "_load_state_dict_pre_hooks", WeakModuleHook(hook, self) if with_module else hook)


def register_load_state_dict_post_hook(self: AnyModule, hook: Function) -> RemovableHandle:
    """Register `hook(module, incompatible_keys)`, which runs when the module and its parts are loaded.

    It may change the two lists in place: what is in them in the end is what a `strict` call complains of.
    """
    return register_hook(self, "_load_state_dict_post_hooks", hook)
