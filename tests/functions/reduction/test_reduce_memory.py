"""Reductions of narrow types take no memory for their elements in a wider one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import adjoint as ad

NARROW = [ad.bool, ad.int8, ad.uint8, ad.int16, ad.int32, ad.float16, ad.bfloat16, ad.float32]
SIZE = 512
REDUCTIONS: dict[str, Callable[[ad.Tensor], Any]] = {
    **{f"sum over {dim}": partial(ad.sum, dim=dim) for dim in (None, 0, 1)},
    **{f"sum over {dim} in float64": partial(ad.sum, dim=dim, dtype=ad.float64) for dim in (None, 0, 1)},
    "sum in float32": partial(ad.sum, dtype=ad.float32),
    "sum in complex64": partial(ad.sum, dtype=ad.complex64),
    "sum of columns": lambda x: x.t().sum(0),
    "mean in float32": partial(ad.mean, dtype=ad.float32),
    "mean of rows in float64": partial(ad.mean, dim=1, dtype=ad.float64),
    "mean in float16": partial(ad.mean, dtype=ad.float16),
    "prod": ad.prod,
    "prod of rows": partial(ad.prod, dim=1),
    "any": ad.any,
    "all of columns": partial(ad.all, dim=0),
    "count_nonzero": ad.count_nonzero,
    "trace": ad.trace,
}
COPIES = {  # of the elements, in their own type or as truths
    "count_nonzero": 1.1,
    "any": 2.1, "all of columns": 2.1, "prod": 2.1, "prod of rows": 2.1, "sum in complex64": 4.1,
}  # fmt: skip


def measure_peak(call: Callable[[], Any]) -> int:
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.sweep(3)
@pytest.mark.parametrize("kind", NARROW, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_no_wide_copy(name: str, kind: ad.dtype) -> None:
    x = (ad.arange(SIZE * SIZE) % 2).reshape(SIZE, SIZE).to(kind)
    peak = measure_peak(lambda: REDUCTIONS[name](x)) - 40 * SIZE  # for a row of results, and objects
    allowed = COPIES.get(name, 0.0) if kind is ad.bfloat16 or name == "count_nonzero" else 0.0
    assert peak <= max(allowed, 0.05) * x.array.nbytes + 70_000  # NumPy's buffers


@pytest.mark.parametrize("kind", [ad.bool, ad.int8, ad.int32, ad.float32, ad.float64], ids=str)
@pytest.mark.parametrize("function", [ad.cumsum, ad.cumprod])
def test_running_results_are_computed_in_place(function: Callable[..., ad.Tensor], kind: ad.dtype) -> None:
    x = (ad.arange(SIZE * SIZE) % 2).reshape(SIZE, SIZE).to(kind)
    for dim in (0, 1):
        out = function(x, dim)
        wide = max(out.array.itemsize, 8)
        assert measure_peak(partial(function, x, dim)) <= x.numel() * (wide + out.array.itemsize) + 70_000
        assert out.is_contiguous()


@pytest.mark.parametrize("kind", NARROW, ids=str)
def test_values_are_those_of_wide_elements(kind: ad.dtype) -> None:
    x = (ad.arange(60) % 3).reshape(5, 12).to(kind)
    wide = x.long()
    for dim in (0, 1):
        assert ad.cumsum(x, dim).long().tolist() == ad.cumsum(wide, dim).tolist()
        assert ad.cumprod(x, dim).long().tolist() == ad.cumprod(wide, dim).tolist()
        assert ad.cumsum(x.t(), dim).is_contiguous()
        assert ad.cumsum(x.t(), dim, dtype=ad.float32).long().tolist() == ad.cumsum(wide.t(), dim).tolist()
        assert ad.count_nonzero(x, dim).tolist() == ad.count_nonzero(wide, dim).tolist()
        assert ad.sum(x, dim, dtype=ad.complex64).real.long().tolist() == wide.sum(dim).tolist()
        assert ad.mean(x, dim, dtype=ad.float64).tolist() == pytest.approx(wide.double().mean(dim).tolist())
    assert ad.cumsum(x, 1, dtype=ad.int8).dtype is ad.int8
    assert ad.trace(x).long() == ad.trace(wide)
    assert ad.count_nonzero(x).item() == ad.count_nonzero(x.reshape(-1), 0).item() == 40
    assert ad.count_nonzero(x[0, 1]).item() == 1
