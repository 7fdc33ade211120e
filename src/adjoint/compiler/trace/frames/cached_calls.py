"""Calls of functions under `functools.lru_cache`: what C code keeps of earlier calls is read, and never filled."""

from __future__ import annotations

import functools
import gc
from types import FrameType
from typing import TYPE_CHECKING, Any

from adjoint.compiler.trace.frames.constants import is_plain
from adjoint.compiler.trace.frames.shadow_frame import ShadowFrame
from adjoint.compiler.trace.frames.sources import MISSING, ItemSource
from adjoint.compiler.trace.frames.static_getattr import UNKNOWN, OneOf
from adjoint.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from adjoint.compiler.trace.frames.observations import Observations

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


def is_own_key(thing: object) -> bool:
    """True for a plain value, and for an object that is found in a dict by itself alone."""
    return is_plain(thing) or isinstance(thing, Tensor) or getattr(type(thing), "__hash__", None) is object.__hash__


def record_cached_call(
    a: ShadowFrame, frame: FrameType, function: CachedFunction[Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    """Record what is kept for these arguments. Where that is nothing, one eager call is to keep it."""
    values = (*args, *keywords.values())
    if any(x is UNKNOWN or isinstance(x, OneOf) for x in values):
        a.observer.preexisting.add(cache_of(function))
        a.observer.use(cache_of(function), frame)
        if (code := getattr(function.__wrapped__, "__code__", None)) is not None:
            a.observer.cached_functions[code] = function  # a frame of it tells that nothing is kept
        return
    if not all(is_own_key(x) and (not isinstance(x, Tensor) or a.observer.is_preexisting(x)) for x in values):
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
    if found is MISSING:
        postpone_filling(a.observer, function, frame)
    a.observer.preexisting.add(cache)
    a.observer.read(ItemSource(cache, key), found, frame)


def postpone_filling(observer: Observations, function: CachedFunction[object], frame: FrameType) -> None:
    """Leave the call of the step to Python if the cache takes another result: of a trace nothing is to be kept."""
    info = function.cache_info()
    if info.maxsize is None or info.currsize < info.maxsize:
        observer.postpone(f"fills the cache of {getattr(function, '__name__', 'a function')!r}", frame)
