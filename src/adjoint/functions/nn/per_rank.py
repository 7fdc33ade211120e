"""Functions for one, two and three dimensions, made from one function that takes the rank."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from adjoint.core.op.signature import with_parameters

P = ParamSpec("P")
R = TypeVar("R")
Pooling = TypeVar("Pooling", bound=Callable[..., Any])
DIMENSIONS = {1: "L", 2: "H, W", 3: "D, H, W"}  # as docstrings name them


def per_rank(
    function: Callable[Concatenate[int, P], R], name: str
) -> tuple[Callable[P, R], Callable[P, R], Callable[P, R]]:
    """Return the variants of `function`, whose first parameter is the rank, for 1, 2 and 3 dimensions.

    `{rank}` in `name` and in the docstring is replaced by the rank. In the docstring `{sizes}` becomes "L", "H, W" or
    "D, H, W", `{out_sizes}` the same with "_out", and `{fours}` and `{twos}` as many numbers.
    """
    signature = inspect.signature(function)
    signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    one, two, three = (_variant(function, rank, name, signature) for rank in (1, 2, 3))
    return one, two, three


def with_indices(function: Pooling) -> Pooling:
    """Return `function`, a max pooling whose first parameter is the rank, as one that always returns indices too."""
    signature = inspect.signature(function)
    at = list(signature.parameters).index("return_indices")

    def call(*args: object, **kwargs: object) -> object:
        if len(args) > at:
            return function(*args[:at], True, *args[at + 1 :], **kwargs)
        return function(*args, **{**kwargs, "return_indices": True})

    always: Any = call
    always.__signature__, always.__module__ = signature, function.__module__
    plain = function.__name__.removeprefix("_")
    always.__doc__ = f"Return `{plain}{{rank}}d`, and the flat index in ({{sizes}}) of each maximum."
    return always


def _variant(
    function: Callable[Concatenate[int, P], R], rank: int, name: str, signature: inspect.Signature
) -> Callable[P, R]:
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(rank, *args, **kwargs)

    variant: Any = call
    variant.__name__ = variant.__qualname__ = name.format(rank=rank)
    variant.__module__ = function.__module__
    variant.__code__ = call.__code__.replace(co_name=variant.__name__)  # tracebacks and profiles show the public name
    variant.__signature__ = signature
    with_parameters(variant, tuple(signature.parameters))
    if function.__doc__:
        sizes = DIMENSIONS[rank].split(", ")
        variant.__doc__ = function.__doc__.format(
            rank=rank,
            sizes=", ".join(sizes),
            out_sizes=", ".join(f"{size}_out" for size in sizes),
            fours=", ".join("4" * rank),
            twos=", ".join("2" * rank),
        )
    return call
