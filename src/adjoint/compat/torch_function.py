"""`adjoint.overrides`: other classes' answer to functions of tensors, PyTorch's protocol `__torch_function__`.

Functions ask subclasses of Tensor, and modes; functions that programs write in these terms ask other classes, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Self

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.tensor.torch_function import (
    dispatch,
    has_own_torch_function,
    overriding_arguments,
    pop_mode,
    push_mode,
    state,
)

__all__ = [
    "TorchFunctionMode", "get_default_nowrap_functions", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property",
    "resolve_name", "wrap_torch_function",
]  # fmt: skip


class TorchFunctionMode:
    """A block whose calls of public functions and of methods go to `__torch_function__(func, types, args, kwargs)`.

    Within that, the mode does not see what is called; by default it calls `func`.
    """

    inner: Any = None

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Self:
        push_mode(self)
        return self

    def __exit__(self, *error: object) -> None:
        pop_mode()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that sees all calls and changes none."""


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """True if one of them has an answer of its own."""
    return has_torch_function_variadic(*relevant_args)


def has_torch_function_unary(tensor: Any) -> bool:
    """`has_torch_function` of one."""
    return has_torch_function_variadic(tensor)


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """`has_torch_function` of several."""
    return bool(state.modes) or (
        state.subclasses_enabled and any(has_own_torch_function(type(x)) for x in relevant_args)
    )


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the first of the arguments answers that does not say NotImplemented. Raises TypeError if none does.

    Arguments of subclasses are asked before those of their bases, and modes before all.
    """
    asked = overriding_arguments(relevant_args)
    found = dispatch(public_api, asked, args, kwargs, otherwise=NotImplemented)
    if found is NotImplemented:
        name, kinds = f"{public_api.__module__}.{public_api.__name__}", list(map(type, asked))
        raise TypeError(f"no implementation found for '{name}' on types that implement __torch_function__: {kinds}")
    return found


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """What gives a tensor that stays of its own class where a subclass answers by default."""
    held: Any = Tensor
    return {held._base.__get__, held.grad.__get__, held._grad.__get__}


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """A decorator: the function asks those of its arguments that `dispatcher` names first."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            relevant = list(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(call, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return call

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """True for a tensor, and for what answers in its place."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """True for what Tensor has under the function's name."""
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func


def resolve_name(f: Any) -> str | None:
    """The name of a function with that of its module, or None."""
    name = getattr(f, "__qualname__", None)
    return None if name is None else f"{f.__module__}.{name}"
