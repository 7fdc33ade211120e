"""Rows 2.9, 4.13 and 4.24 of the contract: both modes of differentiation, what nodes offer, and the pages about it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.folder_maps import PACKAGE
from tools.op_table import PAGE, op_table

import adjoint as ad
from adjoint.core.graph.node import Node

ROOT = PACKAGE.parents[1]


def polynomial(x: Any) -> Any:
    return x * x + 3.0 * x + 2.0


def test_2_9_both_modes() -> None:
    five, one = ad.tensor(5.0, dtype=ad.float64), ad.tensor(1.0, dtype=ad.float64)
    value, slope = ad.func.jvp(polynomial, (five,), (one,))
    assert (value.item(), slope.item()) == (42.0, 13.0)
    value, pull = ad.func.vjp(polynomial, five)
    assert (value.item(), pull(one)[0].item()) == (42.0, 13.0)


def test_2_9_forward_and_reverse_jacobians_agree() -> None:
    def f(x: Any) -> Any:
        return ad.stack([(x * x).sum(), ad.sin(x[0]) * x[1], x.prod(), ad.exp(x[2])])

    x = ad.tensor([0.3, 0.7, 1.1], dtype=ad.float64)
    forward, reverse = ad.func.jacfwd(f)(x), ad.func.jacrev(f)(x)
    np.testing.assert_allclose(forward.numpy(), reverse.numpy(), rtol=1e-14)
    assert forward.shape == (4, 3)


def test_2_9_forward_mode_stores_no_graph() -> None:
    nodes: list[Any] = []

    def seen(x: Any) -> Any:
        y = polynomial(x)
        nodes.extend(t.grad_fn for t in (x, y))
        assert not y.requires_grad
        return y

    ad.func.jvp(seen, (ad.ones(3),), (ad.ones(3),))
    assert nodes == [None, None]


def test_4_13_what_a_node_offers() -> None:
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


def test_4_24_the_table_of_ops_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == op_table(), "stale: run `python3 tools/op_table.py`"


def test_4_24_the_table_says_what_the_nodes_do() -> None:
    rows = {row.split("`")[1]: row for row in op_table().splitlines() if row.startswith("| `")}
    assert rows["mul"].split("|")[2:5] == [" `MulBackward0` ", " x: y; y: x ", " all "]
    assert rows["exp"].split("|")[2:5] == [" `ExpBackward0` ", " x: out ", " all "]
    assert rows["add"].split("|")[3] == " nothing "
    assert "none" in rows["argsort"]


def test_4_24_links_of_the_pages_are_valid() -> None:
    for page in [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]:
        for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_4_24_the_folders_maps_name_the_parts_people_look_for() -> None:
    for name in (
        "nn/module/module.py", "nn/module/hooks.py", "core/graph/node.py", "core/op/apply.py",
        "autograd/engine/engine.py",
        "autograd/function/function.py", "transforms/functional/api.py", "nn/functional.py",
    ):  # fmt: skip
        assert Path(PACKAGE / name).exists()
        assert f"- `{Path(name).stem}`: " in (PACKAGE / name).with_name("__init__.py").read_text(encoding="utf-8")
