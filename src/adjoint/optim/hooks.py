"""What users attach to an optimizer's step: functions called before and after it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import count
from typing import Any, Self

from adjoint.core.mode import watch

_number = count().__next__


class RemovableHandle:
    """Takes a hook off again: by `remove()`, or at the end of a `with` block."""

    def __init__(self, hooks: dict[int, Callable[..., Any]]) -> None:
        self.id = _number()
        self._hooks = hooks

    def remove(self) -> None:
        """Take the hook off; a second time does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def attach(hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> RemovableHandle:
    """Add `hook` to `hooks`, and return the handle that removes it."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


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
