"""Graphs as the viewer draws them: keys that survive passes, boxes of lines and of parts, edges, states in a box."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.compiler.ir.graph import Graph
from adjoint.compiler.passes.simplify import rewrite
from adjoint.compiler.report.drawn_graph import MAX_TEXT_LENGTH, draw_graph, shorten, value_keys
from adjoint.core.viewer.document import DrawnGraph

pytest.importorskip("llvmlite")

TEXT = """
graph step
  %0: f32[4] = argument x
  %1: f32[4] = state w
  %2: f32[4] = mul(%0, 1.0)
  %3: f32[4] = exp(%2)
  %4: f32[4] = mul(%3, %1)
  %5: f32[4] = exp(%4)
  return %5
"""


def check(drawn: DrawnGraph) -> None:
    """What the viewer asks for: distinct keys, edges between nodes, boxes that exist."""
    nodes, groups = [node.key for node in drawn.nodes], [group.key for group in drawn.groups]
    assert len({*nodes, *groups}) == len(nodes) + len(groups)
    assert {end for edge in drawn.edges for end in (edge.source, edge.target)} <= set(nodes)
    assert {node.group for node in drawn.nodes} | {group.parent for group in drawn.groups} <= {"", *groups}
    assert all(" " not in key for key in (*nodes, *groups)), "panes name several, with spaces between"


def test_a_key_stays_with_its_equation_through_rewriting() -> None:
    graph = Graph.parse(TEXT)
    keys = value_keys(graph)
    assert len(set(keys.values())) == len(graph.inputs) + len(graph.equations)
    after = rewrite(graph)
    assert len(after.equations) == len(graph.equations) - 1
    kept = value_keys(after)
    first, second = (v for v in graph.equations if v.op.name == "exp")
    assert [kept[v] for v in after.equations if v.op.name == "exp"] == [keys[first], keys[second]]
    assert keys == value_keys(graph), "they are the same in another process, too: of text, not of identities"


def test_nodes_edges_and_details() -> None:
    graph = Graph.parse(TEXT)
    drawn = draw_graph(graph, "as traced", note="a note")
    check(drawn)
    assert (drawn.title, drawn.note) == ("as traced", "a note")
    assert [node.label for node in drawn.nodes] == ["argument x", "state w", "mul", "exp", "mul", "exp"]
    assert [node.kind for node in drawn.nodes][:2] == ["input", "leaf"]
    assert drawn.nodes[-1].badges == ("output",)
    assert dict(drawn.nodes[3].details)["equation"] == "%3: f32[4] = exp(%2)"
    assert [(edge.label, edge.nbytes) for edge in drawn.edges] == [("f32[4]", 16)] * 5


def make_step(layers: int) -> Any:
    model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(layers)))
    optimizer = optim.Adam(model.parameters())

    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    step(ad.ones(2, 3))
    return step


def test_boxes_are_lines_in_forward_and_backward() -> None:
    drawn = draw_graph(make_step(1).graph, "kernels")
    check(drawn)
    labels = [group.label for group in drawn.groups if group.kind == "lines"]
    assert len(labels) == len(set(labels))
    assert any(label.endswith("· backward") for label in labels)
    forward = next(group for group in drawn.groups if group.kind == "lines")
    assert forward.subtitle == "loss = model(x).square().sum()"
    assert forward.sites[0].file == __file__
    assert all(group.is_open == (len(drawn.nodes) <= 60) for group in drawn.groups if group.kind == "lines")


def test_many_states_are_in_a_box() -> None:
    few, many = (draw_graph(make_step(layers).graph, "") for layers in (1, 4))
    for drawn in (few, many):
        check(drawn)
        states = [node for node in drawn.nodes if node.kind == "leaf"]
        assert {node.group for node in states} == ({""} if len(states) <= 6 else {"state"})
    assert "state" in {group.key for group in many.groups}


def test_texts_are_cut_to_a_box() -> None:
    assert shorten("x" * MAX_TEXT_LENGTH) == "x" * MAX_TEXT_LENGTH
    assert shorten("x" * (MAX_TEXT_LENGTH + 1)) == "x" * (MAX_TEXT_LENGTH - 1) + "…"
