"""Boxes: functions, checkpoints and loops fold, and no box holds too much."""

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.core.viewer.document import DrawnGroup
from adjoint.diagnosis.visualization.boxes import MAX_CHILDREN, BoxTree
from adjoint.diagnosis.visualization.graph_contents import GraphContents
from adjoint.utils.checkpoint import checkpoint


def fold(root: ad.Tensor) -> tuple[BoxTree, list[DrawnGroup]]:
    tree = BoxTree(GraphContents([("root", root)], {}).nodes, lambda node: (), {})
    return tree, tree.groups({})


def soften(x: ad.Tensor) -> ad.Tensor:
    return x.exp().log1p()


def scale(x: ad.Tensor) -> ad.Tensor:
    return x * 2


def test_runs_of_one_function_are_a_box_and_a_single_node_is_none() -> None:
    x = ad.ones(3, requires_grad=True)
    _, groups = fold(soften(scale(soften(x).sin())).sum())
    assert [group.label for group in groups] == ["soften()", "soften()"]
    assert {group.kind for group in groups} == {"function"}
    assert fold(x.sin().cos().sum())[1] == []


def plain_loop(x: ad.Tensor, count: int) -> ad.Tensor:
    for _ in range(count):
        x = x * 1.5
    return x


def body_loop(x: ad.Tensor, count: int) -> ad.Tensor:
    h = x.sin()
    for _ in range(count):
        a = h.exp()
        b = a * x
        h = h + b
    return h.cos()


def two_loops(x: ad.Tensor, count: int) -> ad.Tensor:
    return plain_loop(body_loop(x, count), count)


def nested_loops(x: ad.Tensor, count: int) -> ad.Tensor:
    for _ in range(max(1, count // 10)):
        x = x.sin()
        for _ in range(10):
            x = x * 1.5
    return x


def straight_line(x: ad.Tensor, count: int) -> ad.Tensor:
    space: dict[str, Any] = {"x": x}
    exec("\n".join(["x = x.sin()", "x = x.cos()"] * count), space)
    return space["x"]


def recursion(x: ad.Tensor, count: int) -> ad.Tensor:
    return x if count == 0 else recursion(x.sin().cos(), count - 1)


def segments(x: ad.Tensor, count: int) -> ad.Tensor:
    for _ in range(count):
        x = checkpoint(soften, x, use_reentrant=False)
    return x


@pytest.mark.parametrize("count", [1, 5, 40, 300])
@pytest.mark.parametrize("make", [plain_loop, body_loop, two_loops, nested_loops, straight_line, recursion, segments])
def test_every_graph_folds_to_boxes_that_hold_little(make: Callable[[ad.Tensor, int], ad.Tensor], count: int) -> None:
    x = ad.ones(3, requires_grad=True)
    contents = GraphContents([("root", make(x, count))], {})
    tree = BoxTree(contents.nodes, lambda node: (), {})
    paths, groups = tree.paths(), tree.groups({})
    assert set(paths) == set(contents.nodes)
    assert [node for node in paths if paths[node][-1:] and paths[node][-1] not in {g.key for g in groups}] == []
    children: dict[str, int] = {}
    for group in groups:
        children[group.parent] = children.get(group.parent, 0) + 1
    for path in paths.values():
        key = path[-1] if path else ""
        children[key] = children.get(key, 0) + 1
    assert max(children.values()) <= MAX_CHILDREN
    assert all(children.get(group.key, 0) >= 2 for group in groups)
    assert len({group.key for group in groups}) == len(groups)
    assert max(map(len, paths.values())) <= 5


def test_iterations_are_named_by_number_and_lines() -> None:
    x = ad.ones(3, requires_grad=True)
    _, groups = fold(body_loop(x, 300))
    iterations = [group for group in groups if group.label.startswith("iteration ")]
    assert len(iterations) == 300
    line = body_loop.__code__.co_firstlineno
    assert iterations[7].label == "iteration 8"
    assert iterations[7].subtitle == f"test_boxes.py:{line + 3}–{line + 5}"
    chunks = [group.label for group in groups if group.label.startswith("iterations ")]
    assert chunks[:2] == ["iterations 1–18", "iterations 19–36"]


def test_an_inner_loop_of_one_op_stays_in_its_iteration() -> None:
    tree, groups = fold(nested_loops(ad.ones(3, requires_grad=True), 300))
    assert sum(group.label.startswith("iteration ") for group in groups) == 30
    by_key = {group.key: group.label for group in groups}
    depths = {tuple(by_key[key] for key in path)[-1] for path in tree.paths().values()}
    assert {"iteration 1", "iteration 30"} <= depths


def test_a_loop_of_one_op_is_counted() -> None:
    _, groups = fold(plain_loop(ad.ones(3, requires_grad=True), 300))
    assert {group.label for group in groups} <= {"mul × 18", "mul × 12"}
    assert sum(int(group.label.split()[-1]) for group in groups) == 300


def test_checkpoints_are_boxes_with_the_name_of_their_function() -> None:
    _, groups = fold(segments(ad.ones(3, requires_grad=True), 2))
    assert [(group.label, group.kind) for group in groups] == [("checkpoint soften", "segment")] * 2
