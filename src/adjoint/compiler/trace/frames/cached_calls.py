"""Calls of functions under `functools.lru_cache`: what C code keeps of earlier calls is read, and never filled."""

from __future__ import annotations

import functools
import gc
from types import FrameType
from typing import Any

from adjoint.compiler.trace.frames.constants import is_plain
from adjoint.compiler.trace.frames.shadow_frame import ShadowFrame
from adjoint.compiler.trace.frames.sources import MISSING, ItemSource
from adjoint.compiler.trace.frames.static_getattr import UNKNOWN, OneOf
from adjoint.core.tensor.tensor import Tensor

CachedFunction = functools._lru_cache_wrapper


@functools.cache
def _keyword_mark() -> object:
    """The object that stands in a key between the arguments and those with names."""

    @functools.lru_cache(None)
    def probe(**keywords: int) -> None: ...

    probe(a=1)
    return next(iter(cache_of(probe)))[0]


def cache_of(function: CachedFunction[Any]) -> dict[Any, object]:
    """The dict in which the function keeps its results, or what leads to them."""
    own = function.__dict__
    return next(held for held in gc.get_referents(function) if type(held) is dict and held is not own)


def has_own_identity(thing: object) -> bool:
    """True for an object that is equal to itself alone."""
    return getattr(type(thing), "__hash__", None) is object.__hash__


def record_cached_call(
    a: ShadowFrame, frame: FrameType, function: CachedFunction[Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    """Record what is kept for these arguments. Where that is nothing, one eager call is to keep it."""
    values = (*args, *keywords.values())
    if any(x is UNKNOWN or isinstance(x, OneOf) for x in values):
        a.observer.preexisting.add(cache_of(function))
        a.observer.use(cache_of(function), frame)
        return
    if any(isinstance(x, Tensor) or not (is_plain(x) or has_own_identity(x)) for x in values):
        return  # a tensor of the step's own, say: nothing is kept for it
    key: Any = args
    if keywords:
        key += (_keyword_mark(), *(part for pair in keywords.items() for part in pair))
    if function.cache_parameters()["typed"]:
        key += tuple(map(type, values))
    elif len(key) == 1 and type(key[0]) in (int, str):
        (key,) = key
    cache = cache_of(function)
    found = cache.get(key, MISSING)
    full = (info := function.cache_info()).maxsize is not None and info.currsize >= info.maxsize
    if found is MISSING and not full:
        a.observer.postpone(f"fills the cache of {getattr(function, '__name__', 'a function')!r}", frame)
    a.observer.preexisting.add(cache)
    a.observer.read(ItemSource(cache, key), found, frame)
