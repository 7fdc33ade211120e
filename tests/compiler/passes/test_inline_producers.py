"""What is computed where it is read, rather than stored: which values, for whom, and with the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.tracing import fused, ops

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler.passes.fusion import Fusion, fuse
from adjoint.compiler.passes.inline_producers import InlinedGraph, inline_producers

pytest.importorskip("llvmlite")


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def placed(function: Any, *arrays: Any) -> tuple[InlinedGraph, Fusion]:
    made = inline_producers(fused(function, *arrays).graph, ())
    return made, fuse(made.graph, made.inlined)


def stored(fusion: Fusion) -> list[str]:
    """The ops of the values that lie in memory besides inputs and outputs."""
    return [v.op.name for g in fusion.order for v in g.stored if v not in fusion.graph.outputs]


def centred(x: Any) -> Any:
    """A row kernel, and one over columns that wants what the first could store."""
    less = x - x.mean(1, keepdim=True)
    return less.exp().sum(1), less.sum(0)


def test_a_cheap_value_is_computed_again_from_what_lies_in_memory() -> None:
    before = fused(centred, numbers(300, 400))
    assert "sub" in stored(before)
    made, after = placed(centred, numbers(300, 400))
    assert [v.op.name for v in made.inlined] == ["sub"]
    assert stored(after) == ["div"]  # the means, of one element for each row
    assert [ops(g) for g in after.order] == [["sum", "div", "sub", "exp", "sum"], ["sub", "sum"]]
    assert after.order[1].reason == "sub takes less time where it is read than to store"


def test_what_takes_long_or_reads_more_than_it_saves_is_stored() -> None:
    def slow(x: Any) -> Any:
        e = ad.exp(x - x.mean(1, keepdim=True))
        return e.sum(1), e.sum(0)

    def wide(x: Any, y: Any, z: Any) -> Any:
        total = x + y + z  # three arrays to read again, for one
        return total.amax(1), total.sum(0)

    assert not placed(slow, numbers(300, 400))[0].inlined
    assert not placed(wide, *(numbers(300, 400) for _ in range(3)))[0].inlined


def test_what_the_step_overwrites_is_not_read_late() -> None:
    graph = fused(centred, numbers(300, 400)).graph
    assert inline_producers(graph, ()).inlined
    assert not inline_producers(graph, graph.inputs).inlined


@pytest.mark.parametrize("shape", [(8, 5), (40, 33), (300, 64)])
def test_the_numbers_are_eagers(shape: tuple[int, int]) -> None:
    def gradients(x: Any, w: Any, b: Any) -> Any:
        x, w, b = (t.detach().requires_grad_() for t in (x, w, b))
        hidden = F.layer_norm(F.relu(x), (shape[1],), w, b)
        (F.gelu(hidden) * ad.tanh(hidden)).sum().backward()
        return x.grad, w.grad, b.grad

    given = [ad.from_numpy(a.astype(np.float64)) for a in (numbers(*shape), numbers(shape[1]), numbers(shape[1]))]
    for expected, got in zip(gradients(*given), ad.compile(gradients)(*given), strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-11, atol=1e-12)
