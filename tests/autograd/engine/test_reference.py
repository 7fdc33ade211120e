"""The plain reverse mode gives the engine's gradients: on graphs made by hand, and on those of random programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import leaf

import adjoint as ad
from adjoint.autograd import Function
from adjoint.autograd.engine import engine
from adjoint.autograd.engine.reference import compute_gradients, sort_topologically


def check_against_engine(roots: list[tuple[Any, Any]], targets: list[Any]) -> None:
    """Compare what both give for `targets`: nodes, of which some may get nothing."""
    expected = engine.run_grad(roots, retain_graph=True, create_graph=False, targets=targets)
    for target, g in zip(targets, compute_gradients(roots, targets), strict=True):
        if target not in expected:
            assert g is None
            continue
        want = expected[target].numpy()
        assert (g.shape, g.numpy().dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(g.numpy(), want, rtol=1e-9, atol=1e-9 * np.abs(want).max(initial=1.0))


class SinCos(Function):
    """Two outputs, of which one may get no gradient; and an input that gets none."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.set_materialize_grads(False)
        return ad.sin(x), ad.cos(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        terms = [g * f(x) for g, f in zip(grads, (ad.cos, lambda x: -ad.sin(x)), strict=True) if g is not None]
        return sum(terms), None


def written_through_a_view(x: Any) -> Any:
    y = x * 2.0
    y[0].mul_(x[1])
    y.diagonal().add_(x.sum(0))
    return y.exp()


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "diamond": lambda x: (x.sin() * x.exp() + x.sin()).sum(),
    "node used twice by one op": lambda x: (x * 3.0).square() + (y := x.exp()) * y,
    "views": lambda x: x.reshape(4)[1:].expand(2, 3) * x.t()[0, 1],
    "slices of one tensor": lambda x: (y := x * 1.0)[0] * y[1] + y[:, 0],
    "written in place": written_through_a_view,
    "broadcast": lambda x: (x + x[0]) * x.sum(),
    "several outputs": lambda x: (parts := x.unbind(0))[0] * parts[1] + x.max(0).values,
    "one of several outputs": lambda x: x.sort(0)[0][1] + x.split(1)[0],
    "Function with two outputs": lambda x: SinCos.apply(x, x * 2.0)[0] + SinCos.apply(x * 2.0, x)[1].exp(),
    "matrix product": lambda x: (x @ x).tanh() @ x.t(),
    "mixed types": lambda x: x.float() * 3.0 + x.double().sum(),
    "complex": lambda x: ad.complex(x, x.exp()).square().abs(),
    "leaf alone": lambda x: x,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(name: str) -> None:
    x, unused = leaf([[0.3, 0.7], [1.1, -0.4]]), leaf(2.0)
    y = GRAPHS[name](x)
    g = ad.tensor(np.linspace(0.5, 2.0, y.numel()).reshape(tuple(y.shape)), dtype=y.dtype)
    check_against_engine([(y.node if y.node is not None else x.node, g)], [x.node, unused.node])


def test_several_roots_and_a_target_inside() -> None:
    x = leaf([0.5, 1.5])
    y = x.exp()
    z = y * x
    roots = [(z.node, ad.tensor([1.0, 2.0], dtype=ad.float64)), (y.node, ad.tensor([3.0, 4.0], dtype=ad.float64))]
    check_against_engine(roots, [x.node, y.node])


def test_a_chain_too_long_for_recursion() -> None:
    x = leaf([1.0])
    y = x
    for _ in range(5_000):
        y = y * 1.0001
    check_against_engine([(y.node, ad.ones(1, dtype=ad.float64))], [x.node])


def test_order_is_topological() -> None:
    x = leaf([1.0, 2.0])
    y = x.sin()
    z = (y * x).exp() + y
    nodes = sort_topologically([z.node])
    assert nodes[0] is z.node
    assert len(nodes) == len(set(nodes)) == 5
    for i, node in enumerate(nodes):
        assert not set(node.parents) & set(nodes[:i])


def test_it_leaves_the_graph_as_it_was() -> None:
    x = leaf([1.0, 2.0])
    y = x.exp().sum()
    first, second = (compute_gradients([(y.node, ad.ones((), dtype=ad.float64))], [x.node])[0] for _ in range(2))
    assert first.tolist() == second.tolist()
    assert x.grad is None
    y.backward()
    assert x.grad.tolist() == first.tolist()


def test_it_has_no_masks_of_where() -> None:
    """A zero sent through an infinite slope is NaN here; the engine knows that no gradient flows there."""
    x = leaf([-1.0, 0.0])
    y = ad.where(x > -0.5, x, x.sqrt()).sum()
    (g,) = compute_gradients([(y.node, ad.ones((), dtype=ad.float64))], [x.node])
    assert np.isnan(g.numpy()).tolist() == [True, True]
    y.backward()
    assert x.grad[1].item() == 1.0


EACH = 100


@pytest.mark.parametrize("first", range(0, 1_000, EACH))
def test_random_programs(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each backward pass of a program, from its roots to all leaves and to all nodes on the way."""
    pytest.importorskip("torch")
    from tests.support.fuzz.eager.generate import written
    from tests.support.fuzz.eager.programs import run

    roots_of_passes: list[Any] = []
    task = engine.GraphTask

    def keep_roots(roots: Any, retain_graph: bool, *args: Any) -> Any:
        roots_of_passes.append(roots)
        return task(roots, True, *args)

    monkeypatch.setattr(engine, "GraphTask", keep_roots)
    compared = 0
    for number in range(first, first + EACH):
        program, _ = written(number)
        roots_of_passes.clear()
        state = run(ad, tuple(line for line in program if "register_hook" not in line.text))
        for roots in roots_of_passes[:]:  # the engine's comparisons append
            nodes = [n for n in sort_topologically(node for node, _ in roots) if not hasattr(n, "outputs")]
            try:
                compute_gradients(roots, nodes)
            except RuntimeError as error:
                with pytest.raises(type(error)):
                    engine.run_grad(roots, retain_graph=True, create_graph=False, targets=nodes)
            else:
                check_against_engine(roots, nodes)
                compared += 1
        del state  # alive until here, for the graph holds its leaves weakly
    assert compared > EACH / 2
