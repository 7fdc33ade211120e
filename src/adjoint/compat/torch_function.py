"""`adjoint.overrides`: PyTorch's protocol `__torch_function__`, by which classes override functions of tensors.

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
from adjoint.core.typing import Function

__all__ = [
    "TorchFunctionMode", "get_default_nowrap_functions", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property",
    "wrap_torch_function",
]  # fmt: skip


class TorchFunctionMode:
    """Context in which public functions and methods call `__torch_function__(func, types, args, kwargs)`.

    Inside it the mode is off. By default it calls `func`.
    """

    inner: Any = None

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))

    def __enter__(self) -> Self:
        push_mode(self)
        return self

    def __exit__(self, *error: object) -> None:
        pop_mode()


class BaseTorchFunctionMode(TorchFunctionMode):
    """Mode that sees all calls and changes none."""


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether an argument overrides functions."""
    return has_torch_function_variadic(*relevant_args)


def has_torch_function_unary(tensor: Any) -> bool:
    """Return `has_torch_function` of one argument."""
    return has_torch_function_variadic(tensor)


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """Return `has_torch_function` of several arguments."""
    return bool(state.modes) or (
        state.subclasses_enabled and any(has_own_torch_function(type(x)) for x in relevant_args)
    )


def handle_torch_function(public_api: Function, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Return the first answer of an argument that is not NotImplemented. Raises TypeError if there is none.

    Arguments of subclasses are asked before those of their bases, and modes before all.
    """
    asked = overriding_arguments(relevant_args)
    found = dispatch(public_api, asked, args, kwargs, otherwise=NotImplemented)
    if found is NotImplemented:
        name, kinds = f"{public_api.__module__}.{public_api.__name__}", list(map(type, asked))
        raise TypeError(f"no implementation found for '{name}' on types that implement __torch_function__: {kinds}")
    return found


def get_default_nowrap_functions() -> set[Function]:
    """Return the getters whose tensors keep their class in the default override of a subclass."""
    held: Any = Tensor
    return {held._base.__get__, held.grad.__get__, held._grad.__get__}


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Function:
    """Decorate a function so that it first asks the arguments that `dispatcher` returns."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            relevant = list(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(call, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return call

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Return whether `inp` is a tensor or overrides functions."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Function) -> bool:
    """Return whether Tensor has this function under its name."""
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func
