"""Boxes within boxes: none has too much in it, modules have theirs, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.compiler.report.drawn_graph import draw_graph
from adjoint.compiler.report.nested_boxes import (
    BACKWARD,
    FORWARD,
    MAX_ITEMS,
    MAX_RUN,
    UPDATE,
    BoxedItem,
    BoxNesting,
    find_parts,
)

pytest.importorskip("llvmlite")


def nest(paths: list[str]) -> tuple[dict[str, str], list[str]]:
    """Return the box of each item by its label, and the labels of all boxes."""
    nesting = BoxNesting()
    nesting.nest([BoxedItem(str(i), tuple(path.split("."))[: bool(path) * 9]) for i, path in enumerate(paths)], "")
    labels = {"": "", **{group.key: group.label for group in nesting.groups}}
    return {key: labels[box] for key, box in nesting.parents.items()}, [group.label for group in nesting.groups]


def test_few_items_have_no_boxes() -> None:
    boxes, labels = nest(["a.b", "a.c", ""] * 4)
    assert (set(boxes.values()), labels) == ({""}, [])


def test_many_have_boxes_of_their_modules_and_a_module_that_holds_all_has_none() -> None:
    boxes, labels = nest([f"layers.{i // 5}.linear" for i in range(20)])
    assert labels == [f"layers.{i}" for i in range(4)]
    assert [boxes[str(i)] for i in range(20)] == [f"layers.{i // 5}" for i in range(20)]


def test_a_module_with_many_is_divided_again() -> None:
    boxes, labels = nest([f"a.{'xy'[i % 2]}" for i in range(40)] + ["b"] * 3)
    assert labels[:2] == ["a", "a.x"]
    assert boxes["42"] == "b"
    assert set(boxes) == {str(i) for i in range(43)}


def test_what_belongs_to_no_module_is_divided_into_runs() -> None:
    boxes, labels = nest([""] * 60)
    assert labels == [f"others, {i} of 3" for i in (1, 2, 3)]
    assert max(Counter(boxes.values()).values()) <= MAX_RUN


def make_step(layers: int) -> Any:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), layers)
    optimizer = optim.AdamW(model.parameters())

    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step(ad.randn(2, 5, 8))
    return step


def test_no_box_of_a_large_step_has_many_children() -> None:
    graph = make_step(3).graph
    drawn = draw_graph(graph, "")
    children = Counter([group.parent for group in drawn.groups] + [node.group for node in drawn.nodes])
    assert len(drawn.nodes) > 500
    assert max(n for box, n in children.items() if box != "state") <= 2 * MAX_RUN
    known = {group.key: group for group in drawn.groups}
    labels = {group.label for group in drawn.groups if group.kind == "module"}
    assert any("layers.0" in label for label in labels)
    for group in drawn.groups:
        seen = {group.key}
        while group.parent:
            assert group.parent not in seen, "a box in itself"
            seen.add(group.parent)
            group = known[group.parent]


def test_parts_follow_one_another() -> None:
    graph = make_step(1).graph
    parts = find_parts(graph)
    assert set(parts.values()) == {FORWARD, BACKWARD, UPDATE}
    for value in graph.equations:
        if parts[value] == FORWARD:
            assert all(parts.get(operand, FORWARD) == FORWARD for operand in value.operands)
    assert len(graph.equations) > MAX_ITEMS
