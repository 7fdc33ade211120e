"""Functions that users attach to modules: run before and after forward, and when gradients pass."""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.core.hooks import RemovableHandle
from adjoint.nn.backward_hooks import BackwardHooks

if TYPE_CHECKING:
    from adjoint.nn.module import Module


class Hook(NamedTuple):
    """A user's function with its options. `kind`: forward_pre, forward, backward_pre or backward."""

    kind: str
    call: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


class Everywhere:
    """Holds the hooks that run for all modules, as each module holds its own."""

    def __init__(self) -> None:
        self._hooks: OrderedDict[int, Hook] = OrderedDict()
        self._version = 0


everywhere = Everywhere()


class ModuleHandle(RemovableHandle):
    """A handle that counts the removal of its hook as a change of the module."""

    __slots__ = ("_owner",)
    _owner: Any
    _hooks: Any

    def __init__(self, owner: Any) -> None:
        super().__init__(owner._hooks)
        self._owner = weakref.ref(owner)

    def remove(self) -> None:
        """Take the hook off; once it is off, do nothing."""
        owner = self._owner()
        if owner is not None and owner._hooks.pop(self.id, None) is not None:
            owner.__dict__["_version"] += 1

    def __getstate__(self) -> Any:
        return self._owner(), self.id

    def __setstate__(self, state: Any) -> None:
        owner, self.id = state  # of a module that is itself being restored, and has no hooks yet
        self._owner = _gone if owner is None else weakref.ref(owner)
        self._hooks = _gone


def _gone() -> Any:
    return None


def register(owner: Any, hook: Hook, prepend: bool = False) -> RemovableHandle:
    """Attach `hook` to a module, or to all of them if `owner` is `everywhere`."""
    handle = ModuleHandle(owner)
    owner._hooks[handle.id] = hook
    if prepend:
        owner._hooks.move_to_end(handle.id, last=False)
    owner.__dict__["_version"] += 1
    return handle


def call_with_hooks(module: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Pre-hooks, forward, hooks; those for all modules before the module's own.

    When anything raises, the forward hooks with `always_call` that have not run yet still do, with the output so far.
    """
    hooks = [*everywhere._hooks.values(), *module._hooks.values()]
    after = [hook for hook in hooks if hook.kind == "forward"]
    ran = 0
    out = None
    try:
        for hook in hooks:
            if hook.kind == "forward_pre":
                args, kwargs = _before(hook, module, args, kwargs)
        backward = BackwardHooks.wanted(module, hooks)
        if backward is not None:
            args = backward.enter(args)
        out = forward(*args, **kwargs)
        for hook in after:
            ran += 1
            out = _after(hook, module, args, kwargs, out)
        return out if backward is None else backward.leave(out)
    except Exception:
        for hook in after[ran:]:
            if hook.always_call:
                try:
                    out = _after(hook, module, args, kwargs, out)
                except Exception as error:  # noqa: BLE001  the error that came first is the one to report
                    warnings.warn(f"forward hook with always_call=True raised an error: {error}", stacklevel=2)
        raise


def _before(hook: Hook, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    if hook.with_kwargs:
        result = hook.call(module, args, kwargs)
        if result is None:
            return args, kwargs
        if not (isinstance(result, tuple) and len(result) == 2):
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {result}."
            )
        return result
    result = hook.call(module, args)
    if result is None:
        return args, kwargs
    return result if isinstance(result, tuple) else (result,), kwargs


def _after(hook: Hook, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    result = hook.call(module, args, kwargs, out) if hook.with_kwargs else hook.call(module, args, out)
    return out if result is None else result


def register_forward_pre_hook(
    self: Module, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
) -> RemovableHandle:
    """`hook(module, args)` runs before forward and may return new arguments, one or a tuple.

    `with_kwargs`: `hook(module, args, kwargs)`, which returns None or a pair of both. `prepend` puts it first.
    """
    return register(self, Hook("forward_pre", hook, with_kwargs), prepend)


def register_forward_hook(
    self: Module, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
    always_call: bool = False,
) -> RemovableHandle:  # fmt: skip
    """`hook(module, args, output)` runs after forward and may return another output.

    `with_kwargs`: `hook(module, args, kwargs, output)`. `always_call`: also when forward raises, with `output=None`.
    """
    return register(self, Hook("forward", hook, with_kwargs, always_call), prepend)


def register_full_backward_pre_hook(self: Module, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    """`hook(module, grad_output)` runs when the gradients of the outputs have arrived, and may return others."""
    return register(self, Hook("backward_pre", hook), prepend)


def register_full_backward_hook(self: Module, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` runs when the gradients of the inputs are known, and may return others.

    Both are tuples with an entry for each positional argument or output, None where it wants no gradient.
    """
    return register(self, Hook("backward", hook), prepend)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, args)` before the forward of every module."""
    return register(everywhere, Hook("forward_pre", hook))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`hook(module, args, output)` after the forward of every module."""
    return register(everywhere, Hook("forward", hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_output)` for every module."""
    return register(everywhere, Hook("backward_pre", hook))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` for every module."""
    return register(everywhere, Hook("backward", hook))
