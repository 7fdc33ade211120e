"""Backward step by step: each node, the queue, the counts and the gradients."""

from __future__ import annotations

import pytest
from tests.support.checks import function

import adjoint as ad
from adjoint.autograd import backward_steps

pytestmark = pytest.mark.claim("U20")


def test_every_node_queue_count_and_gradient() -> None:
    x = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    a = x * 3.0
    b = a.exp()
    loss = (a * b + b).sum()
    seen = []
    for step in backward_steps(loss):
        seen.append(step.node.name())
        assert step.counts[step.node] == 0
        assert all(step.counts[node] == 0 for node in step.queue)
        assert step.node not in step.queue
        assert all(count >= 0 for count in step.counts.values())
        assert x.grad is None
        assert step.node.name() in repr(step)
    assert seen == ["SumBackward0", "AddBackward0", "MulBackward0", "ExpBackward0", "MulBackward0"]
    by_steps, x.grad = x.grad.tolist(), None
    a = x * 3.0
    b = a.exp()
    (a * b + b).sum().backward()
    assert by_steps == x.grad.tolist()


def test_a_node_with_several_outputs_and_a_gradient_of_ones_own() -> None:
    Parts = function(lambda ctx, x: (x * 2, x * 3), lambda ctx, *grads: grads[0] * 2 + grads[1] * 3, "Parts")
    x = ad.ones(2, requires_grad=True)
    first, second = Parts.apply(x)
    steps = list(backward_steps(first * 1.0 + second * 1.0, ad.full((2,), 2.0)))
    assert steps[0].gradient.tolist() == [2.0, 2.0]
    (both,) = [step.gradient for step in steps if type(step.node).__name__ == "PartsBackward"]
    assert [g.tolist() for g in both] == [[2.0, 2.0], [2.0, 2.0]]
    assert x.grad.tolist() == [10.0, 10.0]


def test_frees_as_backward_does() -> None:
    x = ad.ones(2, requires_grad=True)
    loss = x.exp().sum()
    for _ in backward_steps(loss, retain_graph=True):
        pass
    for _ in backward_steps(loss):
        pass
    assert x.grad.tolist() == pytest.approx([2 * 2.718281828] * 2)
    with pytest.raises(RuntimeError, match="second time"):
        list(backward_steps(loss))
