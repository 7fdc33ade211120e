"""Functions of lists of tensors, such as `_foreach_add_(params, grads, alpha=-0.1)` in optimizers."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function
from adjoint.functions.linalg.norms_det import vector_norm

UNARY_NAMES = """
    abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round
    rsqrt sigmoid sign sin sinh sqrt tan tanh trunc
"""
MULTI_ARGUMENT_NAMES = "add addcdiv addcmul clamp_max clamp_min div lerp mul pow sub"
INPLACE_NAMES = [f"{name}_" for name in f"{UNARY_NAMES} {MULTI_ARGUMENT_NAMES}".split()]
OTHER_NAMES = "clone max mm copy_ zero_"
METHODS = {name: name for name in (*f"{UNARY_NAMES} {MULTI_ARGUMENT_NAMES} {OTHER_NAMES}".split(), *INPLACE_NAMES)}
METHODS |= {"maximum": "clamp_min", "maximum_": "clamp_min_", "minimum": "clamp_max", "minimum_": "clamp_max_"}
SHARED_KEYWORDS = {"alpha", "non_blocking", "memory_format", "ord", "dtype"}
__all__ = [f"_foreach_{name}" for name in (*METHODS, "norm", "powsum")]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    function: Any = partial(map_over_lists, name.removeprefix("_foreach_"))
    function.__name__ = name
    globals()[name] = function
    return function


def map_over_lists(what: str, *args: Any, **kwargs: Any) -> Any:
    """Return the results of `what` for each tensor of a list; the list itself if `what` writes into its tensors.

    Other arguments are one for all, or lists with one for each. Raises RuntimeError for lists of other lengths and for
    an empty one, TypeError for anything but a list of tensors.
    """
    settings = {name: kwargs.pop(name) for name in SHARED_KEYWORDS & kwargs.keys()}
    given = [*([kwargs.pop("self")] if "self" in kwargs else []), *args, *kwargs.values()]
    tensors = _check_tensor_list(what, given[1] if what == "pow" and _is_number(given[0]) else given[0])
    columns = [_broadcast_argument(what, i, argument, len(tensors)) for i, argument in enumerate(given)]
    results = tuple(_find_function(what)(*row, **settings) for row in zip(*columns, strict=True))
    return given[0] if what.endswith("_") else results


def _find_function(what: str) -> Function:
    if what == "norm":
        return lambda x, ord=2, dtype=None: vector_norm(x, ord, dtype=dtype)
    if what == "powsum":
        return lambda x, ord=2, dtype=None: x.abs().pow(ord).sum(dtype=dtype)
    if what.startswith("addc"):
        return lambda x, a, b, value=1: getattr(x, METHODS[what])(a, b, value=value)
    if what == "pow":  # a number may be the first
        return operator.pow
    return lambda x, *rest, **settings: getattr(x, METHODS[what])(*rest, **settings)


def _check_tensor_list(what: str, given: Any) -> list[Tensor]:
    """Return the list, which sets the number of results, after a check."""
    if not isinstance(given, list | tuple):
        kind = type(given).__name__
        raise TypeError(f"_foreach_{what}(): argument 'self' (position 1) must be tuple of Tensors, not {kind}")
    if not given:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for i, tensor in enumerate(given):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(tensor).__name__}")
    return list(given)


def _broadcast_argument(what: str, place: int, given: Any, count: int) -> list[Any]:
    """Return an argument for each of the tensors."""
    if isinstance(given, Tensor) and what.startswith("addc") and place == 3:
        given = given.tolist()
        if len(given) != count:
            raise RuntimeError(
                f"Expected length of scalars to match input of length {count} but got {len(given)} instead."
            )
    if not isinstance(given, list | tuple):
        return [given] * count
    if len(given) != count and isinstance(given[0] if given else None, Tensor):
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(given)}")
    if len(given) != count:
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return list(given)


def _is_number(given: Any) -> bool:
    return isinstance(given, bool | int | float | complex)
