"""Expanded inputs, whose elements repeat in memory, are read where they lie: arguments, captured and saved tensors.

Each function gives the numbers of the eager one, in every layout; and nothing as large as the whole is allocated.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises

import adjoint as ad
import adjoint.nn.functional as F

pytest.importorskip("llvmlite")
ROWS, COLUMNS = 130, 150
Make = Callable[[], Any]
LAYOUTS: dict[str, Make] = {
    "row": lambda: ad.arange(float(COLUMNS))[None].expand(ROWS, COLUMNS),
    "column": lambda: ad.arange(float(ROWS))[:, None].expand(ROWS, COLUMNS),
    "number": lambda: ad.full((1, 1), 2.5).expand(ROWS, COLUMNS),
    "transposed": lambda: ad.arange(float(ROWS)).expand(COLUMNS, ROWS).T,
    "row_with_gaps": lambda: ad.arange(2.0 * COLUMNS)[None, ::2].expand(ROWS, COLUMNS),
}
INDEX = ad.tensor([1, 3, 5])
WHOLE = ad.arange(float(ROWS * COLUMNS)).reshape(ROWS, COLUMNS)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(),
    "sum_0": lambda x: x.sum(0),
    "sum_1": lambda x: x.sum(1),
    "elementwise": lambda x: x * 2 + 1,
    "with_whole": lambda x: x + WHOLE,
    "added_to_whole": lambda x: WHOLE.clone().add_(x),
    "contiguous": lambda x: x.T.contiguous(),
    "flat": lambda x: x.reshape(-1) * 2,
    "flip": lambda x: x.flip(0) * 2,
    "slice": lambda x: x[3:50, ::2] * 2,
    "select": lambda x: x[3] + x[:, 2].sum(),
    "softmax": lambda x: x.softmax(1),
    "cumsum": lambda x: x.cumsum(1),
    "sort": lambda x: x.sort(1)[0],
    "max": lambda x: x.max(1)[0],
    "argmax": lambda x: x.argmax(1),
    "product": lambda x: x @ x.T,
    "product_of_transposed": lambda x: x.T @ x,
    "linear": lambda x: F.linear(x, WHOLE[:7]),
    "cat": lambda x: ad.cat([x, x]),
    "pad": lambda x: F.pad(x, (1, 1)),
    "clone": lambda x: x.clone(),
    "layer_norm": lambda x: F.layer_norm(x, (COLUMNS,)),
    "where": lambda x: ad.where(x > 5, x, 0.0),
    "double": lambda x: x.to(ad.float64).sum(),
    "index": lambda x: x[INDEX] * 2,
    "gather": lambda x: x.gather(1, INDEX[:, None].expand(3, 80)),
    "index_fill": lambda x: x.index_fill(0, INDEX, 2.0),
    "convolution": lambda x: F.conv2d(x[None, None], ad.ones(2, 1, 3, 3)),
    "max_pool": lambda x: F.max_pool2d(x[None, None], 2),
    "svd": lambda x: ad.linalg.svdvals(x[:4, :5]),
}


def assert_close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours.numpy(force=True), theirs.numpy(force=True), rtol=2e-5, atol=1e-4)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_argument(name: str, layout: str) -> None:
    function, make = FUNCTIONS[name], LAYOUTS[layout]
    compiled = ad.compile(function)
    for _ in range(2):
        assert_close(compiled(make()), function(make()))
    assert compiled.compilations == 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["sum_1", "with_whole", "flip", "product", "sort", "index", "convolution"])
def test_a_captured_tensor(name: str, layout: str) -> None:
    held = LAYOUTS[layout]()
    compiled = ad.compile(lambda: FUNCTIONS[name](held))
    for _ in range(2):
        assert_close(compiled(), FUNCTIONS[name](held))


def test_layouts_in_turn() -> None:
    box = {"held": WHOLE}
    of_argument, of_captured = ad.compile(lambda x: (x * WHOLE).sum(1)), ad.compile(lambda: box["held"].sum(1))
    for make in (lambda: WHOLE, *LAYOUTS.values(), *LAYOUTS.values(), lambda: WHOLE * 2):
        box["held"] = make()
        assert_close(of_argument(make()), (make() * WHOLE).sum(1))
        assert_close(of_captured(), make().sum(1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_inside_and_outside(layout: str) -> None:
    weight = ad.nn.Parameter(ad.full((COLUMNS,), 0.001))

    def loss(x: Any) -> Any:
        return (x * weight).sin().sum()

    def step(x: Any) -> Any:
        weight.grad = None
        loss(x).backward()
        assert weight.grad is not None
        return weight.grad.clone()

    x = LAYOUTS[layout]()
    wanted = step(x)
    assert_close(ad.compile(step)(x), wanted)
    weight.grad = None
    ad.compile(loss)(x).backward()
    assert_close(weight.grad, wanted)


def peak_bytes(call: Callable[[], Any]) -> int:
    """The most memory that was held at a time while `call` ran, beyond what was held before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_nothing_as_large_as_the_whole_is_allocated() -> None:
    one = ad.ones(1, 1)
    weight = ad.nn.Parameter(ad.ones(3000))

    def outside(x: Any) -> None:
        (x * weight).sum().backward()

    for function in (lambda x: x.sum(), lambda x: (x * 2).sum(1), lambda x: (x[5] * 2).sum(), ad.compile(outside)):
        compiled = ad.compile(function)
        compiled(one.expand(3000, 3000))  # 36 MB
        assert peak_bytes(lambda compiled=compiled: compiled(one.expand(3000, 3000))) < 2**20
    scaled = ad.compile(lambda x: (x * weight).sum())
    scaled(one.expand(3000, 3000)).backward()
    assert peak_bytes(lambda: scaled(one.expand(3000, 3000)).backward()) < 2**20


def test_what_does_not_fit_into_memory() -> None:
    vast = ad.ones(1).expand(2**45)
    for function in (lambda x: x[5] * 2, lambda x: x[-3:] * 2, lambda x: x[ad.tensor([7, 2**40])] * 2):
        compiled, captured = ad.compile(function), ad.compile(lambda function=function: function(vast))
        for _ in range(2):
            assert compiled(vast).unique().tolist() == captured().unique().tolist() == [2.0]


def test_an_expanded_argument_is_not_written() -> None:
    held = LAYOUTS["row"]()
    for step in (lambda x: x.add_(1.0), lambda x: held.add_(1.0)):
        raises(RuntimeError, "more than one element of the written-to tensor", lambda step=step: ad.compile(step)(held))
    assert held.tolist() == LAYOUTS["row"]().tolist()
