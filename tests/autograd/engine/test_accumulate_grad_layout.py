"""Where the `.grad` of a leaf lies: in memory of its own, in the order of the leaf, without a needless copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

LEAVES: list[Callable[[Any], Any]] = [
    lambda lib: lib.ones(3, 4),
    lambda lib: lib.ones(3, 4).t(),
    lambda lib: lib.ones(3, 1, 4).permute(2, 1, 0),
    lambda lib: lib.ones(2, 3, 4, 5).to(memory_format=lib.channels_last),
    lambda lib: lib.empty_strided((2, 2), (4, 2)).fill_(1),
    lambda lib: lib.ones(6, 4)[::2],
    lambda lib: lib.ones(1).expand(3),
    lambda lib: lib.ones(1, 4).expand(3, 4),
    lambda lib: lib.ones(()),
    lambda lib: lib.ones(0, 3).t(),
]
USES: list[Callable[[Any, Any], Any]] = [
    lambda lib, x: x.sum(),
    lambda lib, x: (x * lib.ones(x.shape)).sum(),
    lambda lib, x: (x.exp() + x).sum(),
    lambda lib, x: x.transpose(0, -1).exp().sum() if x.ndim else x.exp(),
]


@pytest.mark.parametrize("make", LEAVES)
@pytest.mark.parametrize("use", USES)
def test_a_gradient_lies_as_its_leaf_does(make: Any, use: Any) -> None:
    strides = []
    for lib in (ad, torch):
        x = make(lib).detach().requires_grad_()
        for _ in range(2):
            use(lib, x).backward()
        strides.append([s for n, s in zip(x.grad.shape, x.grad.stride(), strict=True) if n > 1 and x.numel()])
    assert strides[0] == strides[1]


def test_of_several_that_get_one_array_the_last_keeps_it() -> None:
    seen = []

    class Twice(ad.autograd.Function):
        """Addition, whose backward hands on one gradient twice."""

        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(g.data_ptr())
            return g, g

    a, b = ad.randn(5, 6, requires_grad=True), ad.randn(5, 6, requires_grad=True)
    Twice.apply(a, b)[1][0].backward()
    places = [a.grad.data_ptr(), b.grad.data_ptr()]  # type: ignore[union-attr]
    assert places[0] != places[1]
    assert seen[0] in places
    a.grad.add_(1)  # type: ignore[union-attr]
    assert b.grad.sum().item() == 1.0  # type: ignore[union-attr]


def test_the_users_gradient_is_copied() -> None:
    x, g = ad.zeros(3, requires_grad=True), ad.ones(3)
    x.backward(g)
    g.fill_(7.0)
    assert x.grad.tolist() == [1.0] * 3


def test_set_begins_a_new_leaf() -> None:
    x = ad.ones(2, requires_grad=True)
    calls: list[Any] = []
    x.register_hook(calls.append)
    edge, before = ad.autograd.graph.get_gradient_edge(x), x.clone()
    with ad.no_grad():
        x.set_(ad.full((2,), 5.0))
    after = x * 2
    with pytest.raises(RuntimeError, match="to not have been used in the graph"):
        ad.autograd.grad(before.sum(), x, retain_graph=True)
    assert ad.autograd.grad(before.sum(), edge, retain_graph=True)[0].tolist() == [1.0, 1.0]  # type: ignore[union-attr]
    assert edge.node.variable is after.grad_fn.next_functions[0][0].variable is x
    calls.clear()
    (before + after).sum().backward()
    assert [g.tolist() for g in calls] in ([[1.0, 1.0], [2.0, 2.0]], [[2.0, 2.0], [1.0, 1.0]])
    assert x.grad.tolist() == [3.0, 3.0]


def test_data_goes_on_counting_writes() -> None:
    counts = []
    for lib in (ad, torch):
        x = lib.zeros(1, 2)
        x.add_(1)
        row = x[:]
        x.data = lib.zeros(2, 3)
        counts.append([(x._version, row._version)])
        for tensor in (x, row, x):
            tensor.add_(1)
            counts[-1].append((x._version, row._version))
        for _ in range(3):  # however often the memory is replaced
            x.data = lib.ones(2)
            x.mul_(2)
        counts[-1].append((x._version, row._version))
    assert counts[0] == counts[1]
    np.testing.assert_array_equal(row.numpy(), [[2.0, 2.0]])
