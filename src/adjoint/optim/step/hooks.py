"""Hooks of optimizers: functions called before and after a step, and around saving and loading the state."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from functools import wraps
from typing import Any

from adjoint.core.graph.hooks import HookDict, RemovableHandle, add_hook
from adjoint.core.op.op_timer import find_op_timer
from adjoint.core.runtime.mode import depends_on, guard_on, has_interpreter
from adjoint.core.typing import Function

GLOBAL_STEP_PRE_HOOKS: HookDict = OrderedDict()  # before each step of every optimizer
GLOBAL_STEP_POST_HOOKS: HookDict = OrderedDict()
STEP_HOOK_NAMES = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
STATE_DICT_HOOK_NAMES = tuple(
    f"_optimizer_{method}_{time}_hooks" for method in ("state_dict", "load_state_dict") for time in ("pre", "post")
)


def register_optimizer_step_pre_hook(hook: Function) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of every optimizer; it may return others to go on with."""
    return add_hook(GLOBAL_STEP_PRE_HOOKS, hook)


def register_optimizer_step_post_hook(hook: Function) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of every optimizer."""
    return add_hook(GLOBAL_STEP_POST_HOOKS, hook)


def attach_hook(hooks: HookDict, hook: Function, first: bool) -> RemovableHandle:
    """Add `hook` after those that are there, or before them."""
    handle = add_hook(hooks, hook)
    if first:
        hooks.move_to_end(handle.id, last=False)
    return handle


def init_hook_tables(optimizer: object) -> None:
    """Give an optimizer the dictionaries for the hooks of its own, where it has none yet."""
    for name in (*STEP_HOOK_NAMES, *STATE_DICT_HOOK_NAMES):
        vars(optimizer).setdefault(name, OrderedDict())


def with_step_hooks(step: Function) -> Function:
    """Return the method `step` with the optimizer's hooks around it; a call through `super()` runs without them."""

    @wraps(step)
    def call(*args: Any, **kwargs: Any) -> Any:
        optimizer = args[0]
        if type(optimizer).step is not call:
            return step(*args, **kwargs)
        optimizer._opt_called = True
        if STEP_HOOK_NAMES[0] not in vars(optimizer):  # one that wraps another, and has not run Optimizer.__init__
            return step(*args, **kwargs)
        if has_interpreter():
            guard_on(optimizer, step_hook_ids, "hooks of the optimizer's step")
        for hook in (*GLOBAL_STEP_PRE_HOOKS.values(), *optimizer._optimizer_step_pre_hooks.values()):
            replaced = hook(optimizer, args, kwargs)
            if replaced is not None:
                if not (isinstance(replaced, tuple) and len(replaced) == 2):
                    raise RuntimeError(
                        f"a pre hook of {step.__qualname__} must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {replaced}."
                    )
                args, kwargs = replaced
        if (timer := find_op_timer()) is None:
            result = step(*args, **kwargs)
        else:
            result = timer.time_block(f"Optimizer.step#{type(optimizer).__name__}.step", step, args, kwargs)
        for hook in (*optimizer._optimizer_step_post_hooks.values(), *GLOBAL_STEP_POST_HOOKS.values()):
            hook(optimizer, args, kwargs)
        return result

    return call


def _step_hook_id_dependencies(optimizer: object) -> Iterator[Any]:
    """Yield the dicts and items that the numbers depend on."""
    yield GLOBAL_STEP_PRE_HOOKS
    yield GLOBAL_STEP_POST_HOOKS
    held = vars(optimizer)
    for name in STEP_HOOK_NAMES:
        yield held, name
        yield held[name]


@depends_on(_step_hook_id_dependencies)
def step_hook_ids(optimizer: object) -> tuple[int, ...]:
    """Return the numbers of the hooks in place; no number is given twice."""
    held = vars(optimizer)
    return (
        *GLOBAL_STEP_PRE_HOOKS,
        *GLOBAL_STEP_POST_HOOKS,
        *(number for name in STEP_HOOK_NAMES for number in held[name]),
    )
