"""The backward walk beside the gradient of a graph: what is walked, and in which order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.checks import function, leaf

import adjoint as ad
from adjoint.autograd import backward_steps, grad
from adjoint.ops.elementwise import transcendental


@pytest.mark.claim("1.2")
def test_the_root_is_seeded() -> None:
    x = leaf(1.0)
    y = x * 3.0
    assert grad(y, x, retain_graph=True)[0].item() == 3.0
    assert grad(y, x, ad.tensor(2.0, dtype=ad.float64))[0].item() == 6.0


@pytest.mark.claim("1.3")
def test_only_what_leads_to_the_targets_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(g: Any, out: Any) -> Any:
        calls.append("exp")
        return g * out

    op = transcendental.exp.op  # type: ignore[attr-defined]
    monkeypatch.setattr(op, "rules", (counted,))
    w, v = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    loss = (w * w).sum() + ad.exp(ad.exp(v)).sum()
    monkeypatch.setattr(op, "needs", (("out",),))
    (g,) = grad(loss, w, retain_graph=True)
    assert g.tolist() == [2.0, 4.0]
    loss.backward(inputs=[w], retain_graph=True)
    assert v.grad is None
    assert calls == []
    loss.backward()
    assert len(calls) == 2


@pytest.mark.claim("1.5")
def test_no_producer_runs_before_one_of_its_consumers() -> None:
    x = leaf([0.5, 1.5])
    a = ad.exp(x)
    b = ad.sin(a) * a
    dead = a * 3.0
    loss = (b / (a + b)).sum() + (b * x).sum()
    done: set[Any] = set()
    nodes = [step.node for step in backward_steps(loss)]
    for node in nodes:
        consumers = [n for n in nodes if any(parent is node for parent, _ in n.next_functions)]
        assert done.issuperset(consumers)
        done.add(node)
    assert dead.grad_fn not in done
    assert len(done) == len(nodes)


@pytest.mark.claim("1.6")
def test_a_wrong_number_of_gradients() -> None:
    Two = function(lambda ctx, x, y: x * y, lambda ctx, *grads: grads[0], "Two")
    with pytest.raises(RuntimeError, match=r"TwoBackward.*incorrect number of gradients \(expected 2, got 1\)"):
        Two.apply(leaf(1.0), leaf(2.0)).backward()
    from adjoint.core.op.families import binary

    with pytest.raises(TypeError, match="op twisted: rule dz= has no input 'z'; inputs are"):

        @binary(dx=lambda g: g, dz=lambda g: g)
        def twisted(x: Any, y: Any) -> Any:
            """x + y."""
            return x + y


@pytest.mark.claim("1.7")
@pytest.mark.parametrize("create_graph", [False, True])
def test_contributions_are_summed(create_graph: bool) -> None:
    a, b = leaf([1.0, 2.0, 3.0]), leaf([4.0, 5.0, 6.0])
    ga, gb = grad((a * b + a * b).sum(), [a, b], create_graph=create_graph)
    assert (ga.tolist(), gb.tolist()) == ([8.0, 10.0, 12.0], [2.0, 4.0, 6.0])
    assert ga.requires_grad == create_graph


@pytest.mark.claim("1.26")
def test_no_gradient_crosses_the_assignment_of_a_buffer() -> None:
    x = leaf([1.0, 2.0])
    buffer = ad.zeros(2, dtype=ad.float64)
    with ad.no_grad():
        buffer.copy_(3.0 * x)
    data = ad.zeros(2, dtype=ad.float64)
    data.data = 3.0 * x.detach()
    for assigned in (buffer, data):
        y = (assigned * 2.0 + x * 0.0).sum()
        assert grad(y, x)[0].tolist() == [0.0, 0.0]
        assert assigned.tolist() == [3.0, 6.0]
    tracked = ad.zeros(2, dtype=ad.float64)
    tracked.copy_(3.0 * x)  # recorded: it flows
    assert grad((tracked * 2.0).sum(), x)[0].tolist() == [6.0, 6.0]


@pytest.mark.claim("1.27")
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1, (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax"])
def test_reductions_along_any_axes(name: str, dim: Any, keepdim: bool) -> None:
    if name == "prod" and isinstance(dim, tuple):
        dim = dim[-1]
    values = np.random.default_rng(0).standard_normal((2, 3, 4))
    x = leaf(values)
    out = getattr(ad, name)(x, dim=dim, keepdim=keepdim)
    expected = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "amax": np.max}[name](values, axis=dim, keepdims=True)
    assert out.shape == (expected.shape if keepdim else expected.squeeze(dim).shape)
    seed = np.random.default_rng(1).standard_normal(tuple(out.shape))
    out.backward(ad.tensor(seed))
    wide = seed.reshape(expected.shape)
    slope = {
        "sum": lambda: np.ones_like(values),
        "mean": lambda: np.full_like(values, expected.size / values.size),
        "prod": lambda: expected / values,
        "amax": lambda: 1.0 * (values == expected),
    }[name]()
    np.testing.assert_allclose(x.grad.numpy(), wide * slope, rtol=1e-12)
