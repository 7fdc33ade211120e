"""Backward passes that are recorded: the part of the walk written out for them gives what `call_node` gives."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import leaf

import adjoint as ad
from adjoint.autograd.engine import engine
from adjoint.core.graph.node import GraphNode
from adjoint.nn import functional as F

LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "products": lambda x, w: (x * w * x / (1 + w * w)).sum(),
    "broadcast": lambda x, w: (x[:, None] * w + w.exp()).mean(0).square().sum(),
    "reductions": lambda x, w: x.sum() * w.logsumexp(0) + (x * w).max() + w.var(),
    "layers": lambda x, w: F.linear(F.linear(x.view(1, 3), w.expand(2, 3)).tanh(), x[:2].expand(4, 2)).square().sum(),
    "joined": lambda x, w: ad.cat([x, w, x * w]).sin().sum() + ad.stack([x, w]).prod(),
    "views": lambda x, w: (x.unsqueeze(0).transpose(0, 1) @ w.view(1, 3)).tril()[1:].square().sum(),
    "pieces": lambda x, w: sum((a * b * b).sum() for a, b in zip(x.split(2), w.split(2), strict=True)),
    "a choice": lambda x, w: ad.where(x > 0, x * w, x.exp() * w * w).sum() + x.relu().square().sum(),
}


def operands() -> tuple[Any, Any]:
    return leaf([0.5, -1.5, 2.0]), leaf([1.5, 0.25, -0.75])


def gradients_of_gradients(loss: Callable[[Any, Any], Any]) -> list[np.ndarray[Any, Any]]:
    x, w = operands()
    first = ad.autograd.grad(loss(x, w), (x, w), create_graph=True)
    second = ad.autograd.grad(sum((g * g.cos()).sum() for g in first), (x, w), create_graph=True)
    third = ad.autograd.grad(sum((g * g).sum() for g in second), (x, w))
    return [g.detach().numpy() for g in (*first, *second, *third)]


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_gradients_are_those_of_the_plain_walk(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = gradients_of_gradients(LOSSES[name])
    ran: list[Any] = []
    plain = engine.can_run_recorded
    monkeypatch.setattr(engine, "can_run_recorded", lambda node, g: ran.append(plain(node, g)))
    expected = gradients_of_gradients(LOSSES[name])
    assert any(ran)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_leaf_is_the_parent_of_what_a_recorded_pass_computes_with_it() -> None:
    x = leaf([3.0])
    (slope,) = ad.autograd.grad((x * x).sum(), x, create_graph=True)
    assert ad.autograd.grad(slope.sum(), x)[0].tolist() == [2.0]


def test_a_recorded_pass_that_frees_the_graph_keeps_its_numbers_alone() -> None:
    x = leaf([3.0])
    y = (x * x).sum()
    (slope,) = ad.autograd.grad(y, x, retain_graph=False, create_graph=True)
    assert ad.autograd.grad(slope.sum(), x)[0].tolist() == [2.0]
    with pytest.raises(RuntimeError, match="a second time"):
        ad.autograd.grad(y, x)


def test_a_value_written_since_is_noticed_in_a_recorded_pass() -> None:
    x = leaf([3.0])
    y = x * 1
    loss = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        ad.autograd.grad(loss, x, create_graph=True)


def test_nodes_of_a_recorded_pass_name_the_line_that_called_for_it() -> None:
    x, w = operands()
    loss = (x.exp() ** 2.5 * w.tanh()).softmax(0).logsumexp(0)
    line = sys._getframe().f_lineno + 1
    grads = ad.autograd.grad(loss, (x, w), create_graph=True)
    sites, stack = set(), [g.grad_fn for g in grads]
    made = {id(node) for node in stack}
    while stack:
        node = stack.pop()
        sites.add(node.site)
        for parent, _ in node.next_functions:
            if isinstance(parent, GraphNode) and id(parent) not in made and parent.sequence_nr > loss.node.sequence_nr:
                made.add(id(parent))
                stack.append(parent)
    assert len(made) > 10
    assert {(site.file, site.line) for site in sites} == {(__file__, line)}


def test_nodes_of_users_hooks_in_a_recorded_pass_name_the_lines_of_the_hooks() -> None:
    x, _ = operands()
    y = x * 2
    y.register_hook(lambda g: g * x)
    line = sys._getframe().f_lineno - 1
    (g,) = ad.autograd.grad(y.square().sum(), x, create_graph=True)
    mul = g.grad_fn.next_functions[0][0]
    assert mul.site.line == line
