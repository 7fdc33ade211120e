"""Taking a graph apart: all that nobody holds goes, and nothing else."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler.program.recorded_history import LeafSlot
from adjoint.core.graph.iterative_dealloc import dealloc_iteratively


def _chain(length: int) -> tuple[Any, list[weakref.ref[Any]]]:
    x = ad.ones(1, requires_grad=True)
    y, nodes = x, []
    for _ in range(length):
        y = y * y + x
        nodes.append(weakref.ref(y.grad_fn))
    return y, nodes


def test_a_chain_is_freed_one_level_at_a_time() -> None:
    y, nodes = _chain(50)
    dealloc_iteratively(y.grad_fn)
    assert [n() is None for n in nodes[:-1]] == [True] * 49
    assert y.grad_fn.next_functions == ()


def test_what_somebody_holds_stays_whole() -> None:
    y, nodes = _chain(50)
    held = nodes[20]()
    assert held is not None
    dealloc_iteratively(y.grad_fn)
    assert [n() is None for n in nodes[21:-1]] == [True] * 28
    assert all(n() is not None for n in nodes[:21])
    assert len(held.next_functions) == 2


def test_functions_and_their_outputs_are_freed_too() -> None:
    class Both(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            return 2 * g + 3 * h

    y, nodes = ad.ones(1, requires_grad=True), []
    for _ in range(10):
        a, b = Both.apply(y)
        y = a + b
        nodes.append(weakref.ref(y.grad_fn))
    del a, b
    dealloc_iteratively(y.grad_fn)
    assert [n() is None for n in nodes[:-1]] == [True] * 9


def test_what_has_no_parents_is_left_alone() -> None:
    """A history that a compiled step has recorded names leaves by numbers."""
    y, nodes = _chain(3)
    y.grad_fn.parents = (*y.grad_fn.parents, LeafSlot(0), None)
    dealloc_iteratively(y.grad_fn)
    assert nodes[0]() is None


def test_a_history_that_is_used_up_is_left_alone() -> None:
    pytest.importorskip("llvmlite")
    from adjoint.compiler.program.backward_node import ConsumedHistory, HistoryFacts

    y, nodes = _chain(3)
    y.grad_fn.parents = (*y.grad_fn.parents, ConsumedHistory(HistoryFacts("step", (1,), np.dtype(np.float32))))
    dealloc_iteratively(y.grad_fn)
    assert nodes[0]() is None
