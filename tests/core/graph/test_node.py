"""What a node offers: its name, its values, and being called."""

from __future__ import annotations

import pytest

import adjoint as ad
from adjoint.core.graph.node import Node


@pytest.mark.claim("4.13")
def test_what_a_node_offers() -> None:
    x, w = ad.tensor([1.0, 2.0], requires_grad=True), ad.tensor([3.0, 4.0], requires_grad=True)
    y = x * w
    node = y.grad_fn
    assert isinstance(node, Node)
    assert node.name() == type(node).__name__ == "MulBackward0"
    assert [t.tolist() for t in node(ad.ones(2))] == [[3.0, 4.0], [1.0, 2.0]]
    assert (node._saved_self.tolist(), node._saved_other.tolist()) == ([1.0, 2.0], [3.0, 4.0])
    y.sum().backward()
    for read in (lambda: node._saved_self, lambda: node._saved_other, lambda: node(ad.ones(2))):
        with pytest.raises(RuntimeError, match=r"(?s)(freed|second time).*retain_graph=True"):
            read()
