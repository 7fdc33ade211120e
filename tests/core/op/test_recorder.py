"""The tensors, nodes and views that op calls record: every slot is filled, and no reference is lost or kept."""

from __future__ import annotations

import _thread
import gc
import sys
import time
from typing import Any

import pytest

import adjoint as ad
from adjoint.core.graph import node
from adjoint.core.tensor import storage
from adjoint.core.tensor.storage import View

# `called` is the name that a function gives the node afterwards
SLOTS = [name for name in node.Node.__slots__ if name not in ("__weakref__", "called")]


def results(x: Any, y: Any) -> dict[str, Any]:
    return {
        "binary": x * y, "unary": x.exp(), "sum": x.sum(), "product": x @ y, "where": ad.where(x > 0, x, y),
        "view": x.view(-1), "view of a view": x.view(-1)[2:5], "plain view": y.t(), "transposed": x.transpose(0, 1),
        "piece": x.chunk(2)[1], "stack": ad.stack([x, y]),
    }  # fmt: skip


def test_the_graph_is_that_of_python() -> None:
    x, y = ad.ones(4, 4, requires_grad=True), ad.full((4, 4), 2.0)
    made = results(x, y)
    line = make_line()
    for name, out in made.items():
        held: Any = out.node
        if name == "plain view":
            assert held is None
        elif type(held) is node.Node:
            assert {slot: hasattr(held, slot) for slot in SLOTS} == dict.fromkeys(SLOTS, True)
            assert (held.shape, held.dtype, held.hooks) == (out.array.shape, out.array.dtype, None)
            assert held.site.file == __file__
            assert held.site.function == "results"
            assert held.site.line < line
        view = out.storage_
        if "view" in name or name in ("transposed", "piece"):
            assert type(view) is View
            assert view.base is (y if name == "plain view" else x)
            assert view.storage is view.base.storage_
            assert any(t is out for t in storage.storage_of(out).alive_aliases())
            assert view.steps[-1].after == out.array.shape
        else:
            assert view is None
    sum(out.sum() for name, out in made.items() if name != "plain view").backward()
    # * 2, exp 3 uses of sum by hand: y, eˣ, 1, row sums of y, 1, views 3 and the stack
    ones = 1 + 1 + 1 + 1 + 1  # sum, where, view, transposed, stack
    expected = ad.full((4, 4), 2.0 + 2.718281828 + 8.0 + ones)
    expected.view(-1)[2:5] += 1
    expected[2:] += 1
    assert ad.allclose(x.grad, expected)


def make_line() -> int:
    return sys._getframe(1).f_lineno


def test_orders_grow() -> None:
    x = ad.ones(3, requires_grad=True)
    first, second = x * 2, x.view(1, 3)
    assert x.node.sequence_nr < first.node.sequence_nr < second.node.sequence_nr


def test_the_place_is_the_innermost_line_of_the_user() -> None:
    x = ad.ones(2, 2, requires_grad=True)

    def inner() -> Any:
        return ad.nn.functional.softmax(x, -1)

    site = inner().node.site
    assert (site.file, site.function) == (__file__, "inner")


def test_nothing_is_kept() -> None:
    x, y = ad.ones(4, 4, requires_grad=True), ad.full((4, 4), 2.0)
    results(x, y)
    kept = [x.node, x, y, storage.DEFAULT_CREATION, x.storage_, node.Node, View]
    counts = []
    for _ in range(3):
        for _ in range(50):
            results(x, y)
        gc.collect()
        counts.append([sys.getrefcount(each) for each in kept])
    assert counts[2] == counts[1]


@pytest.mark.needs_threads
def test_an_op_may_be_the_first_python_function_of_a_thread() -> None:
    x = ad.ones(2, requires_grad=True)
    outputs: list[Any] = []
    _thread.start_new_thread(outputs.extend, (map(x.__mul__, [x]),))
    _thread.start_new_thread(outputs.extend, (map(x.view, [(1, 2)]),))
    deadline = time.monotonic() + 30
    while len(outputs) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert sorted(out.node.name() for out in outputs) == ["MulBackward0", "ViewBackward0"]


def test_a_symbol_of_a_traced_step_has_no_memory_to_look_into() -> None:
    pytest.importorskip("llvmlite")
    x = ad.ones(2, 2, requires_grad=True)

    @ad.compile
    def step() -> Any:
        out = (x.exp().view(-1) * 2).sum()
        out.backward()
        return out.detach()

    assert abs(step().item() - 8 * 2.718281828) < 1e-5
    assert ad.allclose(x.grad, 2 * x.exp().detach())
