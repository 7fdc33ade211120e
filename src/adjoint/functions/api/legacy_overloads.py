"""Legacy overloads of `addmm` and its kin: positional factors beta and alpha before the tensors that they scale."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from adjoint.core.graph.source_location import warn_user
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand

Function = TypeVar("Function", bound=Callable[..., Any])


def with_leading_factors(function: Function) -> Function:
    """Let `function(input, x, y, *, beta, alpha)` take beta and alpha by position as well."""

    @wraps(function)
    def call(*args: Any, **named: Any) -> Operand:
        return _call_with_leading_factors(function, args, named) if len(args) > 3 else function(*args, **named)

    published: Any = call
    return published


def _call_with_leading_factors(function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
    tensors = [x for x in args if isinstance(x, Tensor)]
    factors = [x for x in args if not isinstance(x, Tensor)]
    if len(tensors) != 3 or len(factors) > 2:
        return function(*args, **named)  # which complains
    warn_user(f"This overload of {function.__name__} is deprecated: give beta= and alpha= by their names", UserWarning)
    return function(*tensors, **dict(zip(("beta", "alpha"), factors, strict=False)), **named)
