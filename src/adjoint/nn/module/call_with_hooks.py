"""A module's call where there are hooks: those before forward, forward, those after it, and those on gradients."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function
from adjoint.nn.module.hooks import global_hooks
from adjoint.nn.module.module_state import AnyModule
from adjoint.nn.module.node_hooks import attach_node_hooks

Args = tuple[object, ...]
Kwargs = dict[str, object]


class ForwardHook(NamedTuple):
    """A forward hook with its options. `key` tells it from all others; `of_all` is its place in messages."""

    key: tuple[bool, int]
    call: Function
    with_kwargs: bool
    always_call: bool

    @property
    def description(self) -> str:
        """Name of the hook in warnings."""
        return "global module forward hook" if self.key[0] else "module forward hook"


def call_with_hooks(module: AnyModule, forward: Function, args: Args, kwargs: Kwargs) -> Any:
    """Run pre-hooks, forward and hooks; those for all modules run before the module's own.

    Which hooks there are is looked up before forward for those before it, after forward for those after it. When
    anything raises, the forward hooks with `always_call` that have not run yet still do, with the output so far.
    """
    from adjoint.nn.module.backward_hooks import GradientHooks  # with what custom functions are made of

    gradients = GradientHooks(module)
    on_node = [
        hook
        for holder in (global_hooks, module)
        if holder._is_full_backward_hook is False
        for hook in holder._backward_hooks.values()
    ]
    ran: set[tuple[bool, int]] = set()
    out = None
    try:
        for hook, with_kwargs in _list_pre_hooks(module):
            args, kwargs = _run_pre_hook(hook, with_kwargs, module, args, kwargs)
        args = gradients.enter(args)
        out = forward(*args, **kwargs)
        for after in _list_forward_hooks(module):
            ran.add(after.key)
            out = _run_forward_hook(after, module, args, kwargs, out)
        if gradients and not isinstance(out, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(out)}",
                stacklevel=4,
            )
        out = gradients.wrap_outputs(out)
        if on_node:
            attach_node_hooks(module, on_node, args, out)
        return out
    except Exception:
        for after in _list_forward_hooks(module):
            if after.always_call and after.key not in ran:
                try:
                    out = _run_forward_hook(after, module, args, kwargs, out)
                except Exception as error:  # noqa: BLE001  the error that came first is the one to report
                    warnings.warn(
                        f"{after.description} with ``always_call=True`` raised an exception that was silenced as "
                        f"another error was raised in forward: {error}",
                        stacklevel=4,
                    )
        raise


def _list_pre_hooks(module: AnyModule) -> list[tuple[Function, bool]]:
    return [
        (hook, key in holder._forward_pre_hooks_with_kwargs)
        for holder in (global_hooks, module)
        for key, hook in holder._forward_pre_hooks.items()
    ]


def _list_forward_hooks(module: AnyModule) -> list[ForwardHook]:
    return [
        ForwardHook(
            (holder is global_hooks, key),
            hook,
            key in holder._forward_hooks_with_kwargs,
            key in holder._forward_hooks_always_called,
        )
        for holder in (global_hooks, module)
        for key, hook in holder._forward_hooks.items()
    ]


def _run_pre_hook(
    hook: Function, with_kwargs: bool, module: AnyModule, args: Args, kwargs: Kwargs
) -> tuple[Args, Kwargs]:
    if with_kwargs:
        both = hook(module, args, kwargs)
        if both is None:
            return args, kwargs
        if not (isinstance(both, tuple) and len(both) == 2):
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {both}."
            )
        return both
    given = hook(module, args)
    if given is None:
        return args, kwargs
    return given if isinstance(given, tuple) else (given,), kwargs


def _run_forward_hook(after: ForwardHook, module: AnyModule, args: Args, kwargs: Kwargs, out: object) -> object:
    given = after.call(module, args, kwargs, out) if after.with_kwargs else after.call(module, args, out)
    return out if given is None else given
