"""The gradient of a graph: for every op, and for random programs, it is what eager backward gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.support.programs import Program, programs
from tests.support.samples import SAMPLES, Sample
from tests.support.tracing import graph_of

import adjoint as ad
from adjoint.compiler import compute_gradient, symbolic
from adjoint.compiler.expressions.graph_gradient import append_gradients
from adjoint.compiler.ir.interpreter import evaluate
from adjoint.core.op.spec import Spec

# A graph has no sparse gradients, and says so: tests/functions/sparse.
DENSE = [s for s in SAMPLES if s.differentiable and s.op.name != "lookup_sparse"]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("sample", DENSE, ids=lambda s: s.name)
def test_the_gradient_of_every_op_equals_the_eager_one(sample: Sample) -> None:
    def arguments() -> tuple[list[Any], list[Any]]:
        inputs = [ad.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in sample.inputs]
        return inputs, [inputs[i] for i in sample.differentiable]

    inputs, leaves = arguments()
    for leaf in leaves:
        leaf.requires_grad_()
    out = sample.function(*inputs, **sample.settings())
    weights = ad.tensor(np.cos(np.arange(out.numel())).reshape(out.shape), dtype=out.dtype)
    expected = ad.autograd.grad(out, leaves, weights, allow_unused=True, materialize_grads=True)
    chosen = sample.settings()
    with symbolic() as graph:
        inputs, targets = arguments()
        out = sample.function(*inputs, **chosen)
        found = compute_gradient(out, weights, targets)
    graph.verify()
    for target, g in zip(targets, expected, strict=True):
        ours = found[target].numpy() if target in found else np.zeros(target.shape)
        np.testing.assert_allclose(ours, g.detach().numpy(), rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(programs(exact=False))
def test_gradients_of_random_programs_are_the_eager_ones_to_the_last_bit(program: Program) -> None:
    def run(arguments: list[Any]) -> Any:
        """The sum of the floating outputs; None if none depends on an argument."""
        return sum((o.to(ad.float64).sum() for o in program.run(*arguments) if o.is_floating_point()), ad.zeros(()))

    places = [i for i, a in enumerate(program.arguments) if a.dtype.kind == "f"]
    arguments = [ad.from_numpy(a.copy()) for a in program.arguments]
    leaves = [arguments[i].requires_grad_() for i in places]
    loss = run(arguments)
    if not loss.requires_grad:
        return
    expected = ad.autograd.grad(loss, leaves, allow_unused=True)
    with symbolic() as graph:
        arguments = [ad.from_numpy(a.copy()) for a in program.arguments]
        targets = [arguments[i] for i in places]
        found = compute_gradient(run(arguments), None, targets)
    graph.verify()
    for target, g in zip(targets, expected, strict=True):
        assert (target in found) == (g is not None)
        if g is not None:
            np.testing.assert_array_equal(found[target].numpy(), g.numpy())


def test_a_traced_graph_is_extended_for_several_roots_at_once() -> None:
    x, w = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    graph = graph_of(lambda x, w: ((x * w).sum(), ad.exp(x)), x, w)
    first, second = graph.outputs
    seeds = {root: graph.input(Spec(root.shape, root.dtype), None) for root in (first, second)}
    before = len(graph.equations)
    found = append_gradients(graph, seeds, graph.inputs[:2])
    graph.verify()
    graph.outputs = [found[v] for v in graph.inputs[:2]]
    given = dict(zip(graph.inputs, [x, w, np.array(2.0), np.array([10.0, 100.0])], strict=False))
    by_x, by_w = evaluate(graph, given)
    np.testing.assert_allclose(by_x, 2.0 * w + np.array([10.0, 100.0]) * np.exp(x))
    np.testing.assert_allclose(by_w, 2.0 * x)
    assert all(v.origin is not None and v.origin.backward for v in graph.equations[before:])
    assert append_gradients(graph, {first: seeds[first]}, []) == {}


def test_an_equation_may_be_a_target_and_a_root() -> None:
    with symbolic():
        x = ad.tensor(3.0)
        y = x * x
        z = y * y
        found = compute_gradient(z, None, [x, y, z])
        assert [found[t].item() for t in (x, y, z)] == [108.0, 18.0, 1.0]
        assert compute_gradient(y, None, [z]) == {}
