"""Functions under `functools.lru_cache` in a compiled step: what they keep is an eager call's, never the trace's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

pytest.importorskip("llvmlite")

WEIGHT = ad.tensor([1.0, 2.0, 3.0])


@functools.lru_cache(maxsize=32)
def places(count: int) -> Any:
    return ad.arange(count)


@functools.cache
def doubled(tensor: Any) -> Any:
    return tensor * 2


def by_size_of_an_item(xs: list[Any]) -> Any:
    return (ad.cat(xs) * places(xs[0].shape[0] + xs[1].shape[0])).sum()


def by_sizes_in_a_loop(xs: list[Any]) -> Any:
    index = ad.cat([places(x.shape[0]) for x in xs])
    count = ad.tensor([3, 4]).amax().item()
    return ad.cat(xs)[index].sum() * ad.arange(count).sum()


def by_a_captured_tensor(xs: list[Any]) -> Any:
    return (doubled(WEIGHT) * xs[0]).sum()


@pytest.mark.parametrize("step", [by_size_of_an_item, by_sizes_in_a_loop, by_a_captured_tensor])
def test_what_is_kept_serves_eager_calls_and_compiled_ones(step: Callable[[list[Any]], Any]) -> None:
    places.cache_clear(), doubled.cache_clear()
    compiled = ad.compile(step)
    for seed in range(4):
        ad.manual_seed(seed)
        xs = [ad.randn(3), ad.randn(4)]
        found = compiled(xs)
        assert step(xs).item() == pytest.approx(found.item(), rel=1e-5)
    assert compiled.compilations == 1
