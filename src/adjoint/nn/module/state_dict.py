"""A module's state as a flat dict of tensors under dotted names."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from adjoint.core.graph.hooks import RemovableHandle
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, StateDict
from adjoint.nn.module.hooks import register_hook
from adjoint.nn.module.module_state import AnyModule

EXTRA_STATE_KEY = "_extra_state"  # the name under which what `get_extra_state` returns is kept


def state_dict(
    self: AnyModule, *, destination: StateDict | None = None, prefix: str = "", keep_vars: bool = False
) -> OrderedDict[str, Tensor]:
    """Return an ordered dict from dotted names to parameters and persistent buffers.

    The tensors are detached and share the module's memory.

    Args:
        destination: dict to fill. Default: None, a new one.
        prefix: text before each name. Default: "".
        keep_vars: True for the parameters and buffers themselves. Default: False.

    Example:
        >>> state = nn.Linear(2, 3).state_dict()
        >>> {name: tuple(tensor.shape) for name, tensor in state.items()}
        {'weight': (3, 2), 'bias': (3,)}
    """
    found: Any = destination
    if found is None:
        found = OrderedDict()
        found._metadata = OrderedDict()
    metadata = {"version": getattr(type(self), "_version", 1)}
    if hasattr(found, "_metadata"):
        found._metadata[prefix[:-1]] = metadata
    for hook in list(self._state_dict_pre_hooks.values()):
        hook(self, prefix, keep_vars)
    self._save_to_state_dict(found, prefix, keep_vars)
    for name, child in self._modules.items():
        if child is not None:
            child.state_dict(destination=found, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    returning = self._state_dict_hooks_returning
    for key, hook in list(self._state_dict_hooks.items()):
        returned = hook(self, found, prefix, metadata)
        if returned is not None:
            if key not in returning:
                raise RuntimeError("state_dict post-hook must return None")
            found = returned
    filled: OrderedDict[str, Tensor] = found
    return filled


def own_tensors(module: AnyModule) -> Iterator[tuple[str, Tensor]]:
    """Return the module's own parameters and persistent buffers."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield name, parameter
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            yield name, buffer


def save_own_state(self: AnyModule, destination: StateDict, prefix: str, keep_vars: bool) -> None:
    """Put the module's own state, without that of its parts, in `destination`. Subclasses may do it in another way."""
    for name, tensor in own_tensors(self):
        destination[prefix + name] = tensor if keep_vars else tensor.detach()
    if type(self).get_extra_state is not get_extra_state:
        destination[prefix + EXTRA_STATE_KEY] = self.get_extra_state()


def get_extra_state(self: AnyModule) -> Any:
    """Return further state. Subclasses that have some define this and `set_extra_state`.

    Raises: RuntimeError where the class has none.
    """
    raise RuntimeError(f"{type(self).__name__} has no extra state: it defines no get_extra_state")


def set_extra_state(self: AnyModule, state: object) -> None:
    """Take what `get_extra_state` gave, when a state dict is loaded. Raises RuntimeError where the class has none."""
    raise RuntimeError(f"{type(self).__name__} has no extra state: it defines no set_extra_state")


def register_state_dict_pre_hook(self: AnyModule, hook: Function) -> RemovableHandle:
    """Register `hook(module, prefix, keep_vars)`, which runs before the module's state is taken."""
    return register_hook(self, "_state_dict_pre_hooks", hook)


def register_state_dict_post_hook(self: AnyModule, hook: Function) -> RemovableHandle:
    """Register `hook(module, state_dict, prefix, local_metadata)`, which may change `state_dict` in place."""
    marked: Any = hook
    marked._from_public_api = True
    return register_hook(self, "_state_dict_hooks", hook, returning=False)


def register_returning_hook(self: AnyModule, hook: Function) -> RemovableHandle:
    """Register a hook of state dicts that may return another dict, which the root's caller gets."""
    if getattr(hook, "_from_public_api", False):
        raise RuntimeError(
            "Cannot register the same function as the state dict post hook that was previously registered via "
            "register_state_dict_post_hook"
        )
    return register_hook(self, "_state_dict_hooks", hook, returning=True)
