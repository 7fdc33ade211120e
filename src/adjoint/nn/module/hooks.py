"""Functions that users attach to a module, or to all modules, and the dictionaries that hold them.

Each kind of hook has a dictionary by id. What else is known of a hook stands under its id in dictionaries whose names
begin alike: `_forward_hooks`, `_forward_hooks_with_kwargs`, `_forward_hooks_always_called`. A module has none of them
until somebody looks at one; so it takes one look to know that there are no hooks.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterator
from functools import update_wrapper
from typing import Any

from adjoint.core.graph.hooks import HookDict, RemovableHandle
from adjoint.core.runtime.mode import depends_on
from adjoint.core.typing import Function
from adjoint.nn.module.module_state import AnyModule

CALL_HOOK_NAMES = (
    "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_backward_pre_hooks", "_backward_hooks",
)  # fmt: skip
STATE_DICT_HOOK_NAMES = (
    "_state_dict_pre_hooks", "_state_dict_hooks", "_state_dict_hooks_returning", "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)  # fmt: skip
REGISTRATION_HOOK_NAMES = ("_buffer_registration_hooks", "_module_registration_hooks", "_parameter_registration_hooks")
RUN_HOOK_NAMES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
COMPILED_CALL_NAME = "_compiled_call_impl"
FULL_BACKWARD_NAME = "_is_full_backward_hook"  # whether the `_backward_hooks` are full ones; None before the first
CALL_HOOK_TABLES_NAME = "_detours"  # what a call looks at to know whether it may go straight to forward
HOOK_ATTRIBUTE_NAMES = frozenset((*CALL_HOOK_NAMES, *STATE_DICT_HOOK_NAMES, FULL_BACKWARD_NAME, CALL_HOOK_TABLES_NAME))


class GlobalHooks:
    """Holds the hooks for all modules as a module holds its own, and counts their changes as it does."""

    _forward_pre_hooks: HookDict
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks: HookDict
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _backward_pre_hooks: HookDict
    _backward_hooks: HookDict
    _is_full_backward_hook: bool | None
    _buffer_registration_hooks: HookDict
    _module_registration_hooks: HookDict
    _parameter_registration_hooks: HookDict
    _detours: tuple[object, ...]
    _version: int

    def __init__(self) -> None:
        held = self.__dict__
        make_hook_tables(self, CALL_HOOK_NAMES + REGISTRATION_HOOK_NAMES)
        held.update(_version=0, _detours=())

    def __setattr__(self, name: str, value: object) -> None:
        self.__dict__[name] = value
        self.__dict__["_version"] += 1
        refresh_hook_tables(self)


def make_hook_tables(holder: object, names: tuple[str, ...] = CALL_HOOK_NAMES + STATE_DICT_HOOK_NAMES) -> None:
    """Put an empty dictionary of hooks under each of the names where there is none."""
    held = holder.__dict__
    for name in names:
        held.setdefault(name, OrderedDict())
    held.setdefault(FULL_BACKWARD_NAME, None)
    refresh_hook_tables(holder)


def refresh_hook_tables(holder: object) -> None:
    """Record the dictionaries that each call reads, so that a call reads no other attribute."""
    held = holder.__dict__
    held[CALL_HOOK_TABLES_NAME] = tuple(held[name] for name in (*RUN_HOOK_NAMES, COMPILED_CALL_NAME) if name in held)


global_hooks = GlobalHooks()


def has_hooks(module: object) -> bool:
    """True if a call of the module has hooks to run."""
    return bool(hook_ids(module) or hook_ids(global_hooks))


def _hook_id_dependencies(holder: object) -> Iterator[object]:
    """Return the facts that the ids depend on."""
    held = vars(holder)
    for name in RUN_HOOK_NAMES:
        yield held, name, None
        if name in held:
            yield held[name]


@depends_on(_hook_id_dependencies)
def hook_ids(holder: object) -> tuple[int, ...]:
    """Return the ids of the hooks that run at the module's calls, whoever added them."""
    return tuple([key for name in RUN_HOOK_NAMES for key in holder.__dict__.get(name, ())])


class ModuleHandle(RemovableHandle):
    """A handle that counts the removal of its hook as a change of the module."""

    __slots__ = ("_owner",)
    _owner: weakref.ref[object]

    def __init__(self, owner: object, hooks: HookDict, extra: list[OrderedDict[int, bool]]) -> None:
        super().__init__(hooks, extra_dict=extra)
        self._owner = weakref.ref(owner)

    def remove(self) -> None:
        """Take the hook off; once it is off, do nothing."""
        owner, hooks = self._owner(), self.hooks_dict_ref()
        if owner is not None and hooks is not None and self.id in hooks:
            owner.__dict__["_version"] += 1
        super().remove()

    def __getstate__(self) -> tuple[object, ...]:
        return super().__getstate__(), self._owner()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        handle, owner = state
        super().__setstate__(handle)
        self._owner = weakref.ref(GlobalHooks() if owner is None else owner)  # the new one is gone at once


class WeakModuleHook:
    """A hook that is given, before its other arguments, a module that it does not keep alive."""

    def __init__(self, hook: Function, module: AnyModule) -> None:
        update_wrapper(self, hook)
        self.hook = hook
        self.module = weakref.ref(module)

    def __call__(self, *args: object) -> Any:
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args)

    def __getstate__(self) -> tuple[object, ...]:
        module = self.module()
        if module is None:
            raise RuntimeError("the module of this hook is gone: the hook cannot be copied nor pickled without it")
        return self.hook, module

    def __setstate__(self, state: tuple[Function, AnyModule]) -> None:
        WeakModuleHook.__init__(self, *state)


def register_hook(
    owner: object, name: str, hook: Function, *, prepend: bool = False, **options: bool
) -> RemovableHandle:
    """Put `hook` in the dictionary `name` of a module, or of `global_hooks`, and its id in those of its options."""
    hooks = getattr(owner, name)
    known = {option: getattr(owner, f"{name}_{option}") for option in options}
    handle = ModuleHandle(owner, hooks, list(known.values()))
    hooks[handle.id] = hook
    for option, given in options.items():
        if given:
            known[option][handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    refresh_hook_tables(owner)
    owner.__dict__["_version"] += 1
    return handle


def _register_backward_hook(
    owner: AnyModule | GlobalHooks, hook: Function, full: bool, prepend: bool = False
) -> RemovableHandle:
    if owner._backward_hooks and owner._is_full_backward_hook is not full:
        where = "as a global Module hook" if owner is global_hooks else "on a single Module"
        raise RuntimeError(
            f"Cannot use both regular backward hooks and full backward hooks {where}. Please use only one of them."
        )
    owner.__dict__[FULL_BACKWARD_NAME] = full
    return register_hook(owner, "_backward_hooks", hook, prepend=prepend)


def register_forward_pre_hook(
    self: AnyModule, hook: Function, *, prepend: bool = False, with_kwargs: bool = False
) -> RemovableHandle:
    """Register `hook(module, args)`, which runs before each forward, and return a handle.

    A hook that returns a value, or a tuple of values, replaces the arguments. The handle's `remove()` removes the hook.

    Args:
        hook: function to call.
        prepend: True to run it before the hooks there are. Default: False.
        with_kwargs: True to call `hook(module, args, kwargs)`, which may return a pair of both. Default: False.

    Example:
        >>> layer = nn.ReLU()
        >>> handle = layer.register_forward_pre_hook(lambda module, args: (-args[0],))
        >>> layer(ad.tensor([-2.0, 3.0]))
        tensor([2., 0.])
    """
    return register_hook(self, "_forward_pre_hooks", hook, prepend=prepend, with_kwargs=with_kwargs)


def register_forward_hook(
    self: AnyModule, hook: Function, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Register `hook(module, args, output)`, which runs after each forward, and return a handle.

    A hook that returns a value replaces the output. The handle's `remove()` removes the hook.

    Args:
        hook: function to call.
        prepend: True to run it before the hooks there are. Default: False.
        with_kwargs: True to call `hook(module, args, kwargs, output)`. Default: False.
        always_call: True to call it also when forward raises, with None as output. Default: False.

    Example:
        >>> layer = nn.Linear(2, 3)
        >>> handle = layer.register_forward_hook(lambda module, args, output: print(tuple(output.shape)))
        >>> _ = layer(ad.ones(5, 2))
        (5, 3)
        >>> handle.remove()
    """
    return register_hook(
        self, "_forward_hooks", hook, prepend=prepend, with_kwargs=with_kwargs, always_called=always_call
    )


def register_full_backward_pre_hook(self: AnyModule, hook: Function, prepend: bool = False) -> RemovableHandle:
    """Register `hook(module, grad_output)`, which gets the gradients of the outputs and may replace them."""
    return register_hook(self, "_backward_pre_hooks", hook, prepend=prepend)


def register_full_backward_hook(self: AnyModule, hook: Function, prepend: bool = False) -> RemovableHandle:
    """Register `hook(module, grad_input, grad_output)`, which runs in backward passes, and return a handle.

    It runs when the input gradients are known. Both gradients are tuples, with None where no gradient is wanted. A
    returned tuple replaces `grad_input`. If no input requires a gradient, the hook runs once the output gradients
    arrive, with a warning.

    Args:
        hook: function to call.
        prepend: True to run it before the hooks there are. Default: False.

    Raises: RuntimeError if the module has hooks of `register_backward_hook`.

    Example:
        >>> layer = nn.ReLU()
        >>> handle = layer.register_full_backward_hook(lambda module, grad_in, grad_out: print(grad_in))
        >>> x = ad.tensor([-1.0, 2.0], requires_grad=True)
        >>> layer(x).sum().backward()
        (tensor([0., 1.]),)
    """
    return _register_backward_hook(self, hook, True, prepend)


def register_backward_hook(self: AnyModule, hook: Function) -> RemovableHandle:
    """Register `hook(module, grad_input, grad_output)` of the one node that made the output: deprecated.

    `grad_input` belongs to the module only where forward is a single op; use `register_full_backward_hook`.
    """
    return _register_backward_hook(self, hook, False)


def register_module_forward_pre_hook(hook: Function) -> RemovableHandle:
    """Register `hook(module, args)` before every forward and before the module's own hooks."""
    return register_hook(global_hooks, "_forward_pre_hooks", hook)


def register_module_forward_hook(
    hook: Function, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Register `hook(module, args, output)` after every forward, before the module's own hooks."""
    return register_hook(global_hooks, "_forward_hooks", hook, with_kwargs=with_kwargs, always_called=always_call)


def register_module_full_backward_pre_hook(hook: Function) -> RemovableHandle:
    """Register `hook(module, grad_output)` for every module, before the module's own hooks."""
    return register_hook(global_hooks, "_backward_pre_hooks", hook)


def register_module_full_backward_hook(hook: Function) -> RemovableHandle:
    """Register `hook(module, grad_input, grad_output)` for every module, before its own hooks."""
    return _register_backward_hook(global_hooks, hook, True)


def register_module_backward_hook(hook: Function) -> RemovableHandle:
    """Register `Module.register_backward_hook` for every module: deprecated, too."""
    return _register_backward_hook(global_hooks, hook, False)


def register_module_buffer_registration_hook(hook: Function) -> RemovableHandle:
    """Register `hook(module, name, buffer)`, which may replace a buffer that a module registers."""
    return register_hook(global_hooks, "_buffer_registration_hooks", hook)


def register_module_module_registration_hook(hook: Function) -> RemovableHandle:
    """Register `hook(module, name, submodule)`, which may replace a module that a module registers."""
    return register_hook(global_hooks, "_module_registration_hooks", hook)


def register_module_parameter_registration_hook(hook: Function) -> RemovableHandle:
    """Register `hook(module, name, parameter)`, which may replace a parameter that a module registers."""
    return register_hook(global_hooks, "_parameter_registration_hooks", hook)
