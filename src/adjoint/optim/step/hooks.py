"""What users attach to optimizers: functions called before and after a step, or the state's saving and loading."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from adjoint.core.graph.hooks import HookDict, RemovableHandle, attach
from adjoint.core.runtime.mode import watch

BEFORE_ALL: HookDict = OrderedDict()  # before each step of every optimizer
AFTER_ALL: HookDict = OrderedDict()
OF_STEP = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
OF_STATE = (
    "_optimizer_state_dict_pre_hooks", "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)  # fmt: skip


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimizer; it may return others to go on with."""
    return attach(BEFORE_ALL, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimizer."""
    return attach(AFTER_ALL, hook)


def attach_at(hooks: HookDict, hook: Callable[..., Any], first: bool) -> RemovableHandle:
    """Add `hook` after those that are there, or before them."""
    handle = attach(hooks, hook)
    if first:
        hooks.move_to_end(handle.id, last=False)
    return handle


def add_empty(optimizer: Any) -> None:
    """Give an optimizer the dictionaries for the hooks of its own, where it has none yet."""
    for name in (*OF_STEP, *OF_STATE):
        vars(optimizer).setdefault(name, OrderedDict())


def hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """The method `step` with the optimizer's hooks around it; called through `super()`, it runs without them."""

    @wraps(step)
    def call(*args: Any, **kwargs: Any) -> Any:
        optimizer = args[0]
        if type(optimizer).step is not call or OF_STEP[0] not in vars(optimizer):  # it did not call Optimizer.__init__
            return step(*args, **kwargs)
        watch(optimizer, attached, "hooks of the optimizer's step")
        for hook in (*BEFORE_ALL.values(), *optimizer._optimizer_step_pre_hooks.values()):
            replaced = hook(optimizer, args, kwargs)
            if replaced is not None:
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        f"a pre hook of {step.__qualname__} must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {replaced}."
                    )
                args, kwargs = replaced
        optimizer._opt_called = True
        result = step(*args, **kwargs)
        for hook in (*optimizer._optimizer_step_post_hooks.values(), *AFTER_ALL.values()):
            hook(optimizer, args, kwargs)
        return result

    return call


def attached(optimizer: Any) -> tuple[int, ...]:
    """The numbers of the hooks in place; none is ever given twice."""
    held = vars(optimizer)
    return (*BEFORE_ALL, *AFTER_ALL, *(number for name in OF_STEP for number in held[name]))


def _dictionaries(optimizer: Any) -> Iterator[Any]:
    """What the numbers depend on."""
    yield BEFORE_ALL
    yield AFTER_ALL
    held = vars(optimizer)
    for name in OF_STEP:
        yield held, name
        yield held[name]


attached.rests_on = _dictionaries  # type: ignore[attr-defined]
