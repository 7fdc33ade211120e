"""`adjoint.overrides`: other classes' answer to functions of tensors, PyTorch's protocol `__torch_function__`.

The library's own functions do not ask for it; those that programs write in its terms can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from adjoint.core.no_device import NoStream
from adjoint.core.tensor import Tensor

__all__ = [
    "TorchFunctionMode", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property", "resolve_name",
    "wrap_torch_function",
]  # fmt: skip


class TorchFunctionMode(NoStream):
    """PyTorch's way to see all calls in a block. Here the block runs as without."""

    def __init__(self) -> None:
        super().__init__()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that sees all calls and changes none."""


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """True if one of them has an answer of its own."""
    return any(_overrides(x) for x in relevant_args)


def has_torch_function_unary(tensor: Any) -> bool:
    """`has_torch_function` of one."""
    return _overrides(tensor)


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """`has_torch_function` of several."""
    return any(map(_overrides, relevant_args))


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the first of the arguments answers that does not say NotImplemented. Raises TypeError if none does.

    Arguments of subclasses are asked before those of their bases.
    """
    asked: list[Any] = []
    for x in relevant_args:
        if _overrides(x) and type(x) not in map(type, asked):
            place = next((i for i, other in enumerate(asked) if isinstance(x, type(other))), len(asked))
            asked.insert(place, x)
    kinds = tuple(map(type, asked))
    for x in asked:
        found = x.__torch_function__(public_api, kinds, args, kwargs)
        if found is not NotImplemented:
            return found
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(f"no implementation found for '{name}' on types that implement __torch_function__: {[*kinds]}")


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


def _overrides(x: Any) -> bool:
    return not isinstance(x, Tensor) and hasattr(type(x), "__torch_function__")
