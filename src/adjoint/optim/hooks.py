"""What users attach to an optimizer's step: functions called before and after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from adjoint.core.mode import watch


def hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """The method `step` with the optimizer's hooks around it; called through `super()`, it runs without them."""

    @wraps(step)
    def call(*args: Any, **kwargs: Any) -> Any:
        optimizer = args[0]
        if type(optimizer).step is not call:
            return step(*args, **kwargs)
        watch(optimizer, attached, "hooks of the optimizer's step")
        for hook in list(optimizer._step_pre_hooks.values()):
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
        for hook in list(optimizer._step_post_hooks.values()):
            hook(optimizer, args, kwargs)
        return result

    return call


def attached(optimizer: Any) -> tuple[int, ...]:
    """The numbers of the hooks in place; none is ever given twice."""
    return (*optimizer._step_pre_hooks, *optimizer._step_post_hooks)


def _dictionaries(optimizer: Any) -> Iterator[Any]:
    """What the numbers depend on."""
    held = vars(optimizer)
    for name in ("_step_pre_hooks", "_step_post_hooks"):
        yield held, name
        yield held[name]


attached.rests_on = _dictionaries  # type: ignore[attr-defined]
