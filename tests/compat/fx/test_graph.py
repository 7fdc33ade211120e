"""Graphs: they are built, changed, checked and written as code."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import fx, nn


def make_graph() -> fx.Graph:
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(ad.relu, (x,))
    z = graph.call_method("sum", (y,), {"dim": 0})
    graph.output((z, {"y": y, "part": slice(1, z, None)}))
    return graph


def test_a_graph_by_hand_prints_and_runs() -> None:
    graph = make_graph()
    assert str(graph) == (
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %relu : [num_users=2] = call_function[target=adjoint.relu](args = (%x,), kwargs = {})\n"
        "    %sum_1 : [num_users=1] = call_method[target=sum](args = (%relu,), kwargs = {dim: 0})\n"
        "    return (sum_1, {'y': relu, 'part': slice(1, sum_1, None)})"
    )
    total, rest = fx.GraphModule({}, graph)(ad.tensor([-1.0, 2.0]))
    assert (total.item(), rest["y"].tolist()) == (2.0, [0.0, 2.0])


def test_uses_follow_changes() -> None:
    graph = make_graph()
    x, relu, total, output = graph.nodes
    with graph.inserting_after(relu):
        other = graph.call_function(ad.sigmoid, (x,))
    assert relu.replace_all_uses_with(other, propagate_meta=True) == [total, output]
    assert (relu.users, list(other.users)) == ({}, [total, output])
    graph.erase_node(relu)
    total.args = (x,)
    assert list(x.users) == [other, total]
    output.replace_input_with(other, x)
    total.update_kwarg("dim", 1)
    total.insert_arg(1, 0)
    total.update_arg(1, other)
    assert (total.args, total.kwargs, total.all_input_nodes) == ((x, other), {"dim": 1}, [x, other])
    assert [node.name for node in graph.nodes] == ["x", "sigmoid", "sum_1", "output"]
    assert len(graph.nodes) == 4
    total.prepend(output)
    assert output.next is total
    with pytest.raises(TypeError, match="does not support mutation"):
        total.kwargs["dim"] = 2


def test_what_is_wrong_is_named() -> None:
    graph = make_graph()
    x, relu, total, _ = graph.nodes
    with pytest.raises(RuntimeError, match="Tried to erase Node relu but it still had 2 users in the graph"):
        graph.erase_node(relu)
    with pytest.raises(RuntimeError, match="Attempting to remove x from wrong graph!"):
        fx.Graph().erase_node(fx.Node(fx.Graph(), "x", "placeholder", "x", (), {}))
    with pytest.raises(AssertionError, match="not in legal ops"):
        graph.create_node("call", "x")
    with pytest.raises(ValueError, match="but a Callable is expected"):
        graph.create_node("call_function", "relu")
    total.append(relu)
    with pytest.raises(RuntimeError, match="was used before it has been defined"):
        graph.lint()
    total.prepend(relu)
    graph.lint()
    other = fx.Graph()
    other.create_node("call_method", "abs", (x,))
    with pytest.raises(RuntimeError, match="does not belong to this Graph"):
        other.lint()
    owned = fx.GraphModule({"layer": nn.Linear(1, 1)}, fx.Graph())
    with pytest.warns(UserWarning, match="no underlying reference"):
        owned.graph.call_module("layer")
    with pytest.raises(RuntimeError, match="references nonexistent attribute layer"):
        owned.graph.lint()


def test_dead_code_goes_and_effects_stay() -> None:
    def function(x: Any) -> Any:
        y = x + 1
        y * 2
        ad._assert(x.sum() > 0, "positive")
        ad.rand(2)
        return y

    traced = fx.symbolic_trace(function)
    assert traced.graph.eliminate_dead_code()
    assert not traced.graph.eliminate_dead_code()
    assert [node.name for node in traced.graph.nodes] == ["x", "add", "sum_1", "gt", "_assert", "output"]

    def effect(x: Any) -> Any:
        return x

    fx.has_side_effect(effect)
    graph = fx.Graph()
    graph.call_function(effect, (graph.placeholder("x"),))
    graph.output(None)
    assert not graph.eliminate_dead_code()


def test_a_graph_is_copied_into_another() -> None:
    graph = make_graph()
    twice = fx.Graph()
    x = twice.placeholder("x")
    first, _ = twice.graph_copy(graph, {next(iter(graph.nodes)): x})
    second, _ = twice.graph_copy(graph, {next(iter(graph.nodes)): first})
    twice.output(second)
    twice.lint()
    assert [node.name for node in twice.nodes] == ["x", "relu", "sum_1", "relu_1", "sum_2", "output"]
    assert [node.name for node in reversed(twice.nodes)][:2] == ["output", "sum_2"]


def test_code_has_unique_names_and_the_globals_that_it_needs() -> None:
    def function(x: Any, list: Any, y: Any) -> Any:
        return float("inf") * x, x.to(ad.device("cpu")), list + y, len([x])

    traced = fx.symbolic_trace(function)
    assert "inf * x" in traced.code
    assert "to(device(type='cpu'))" in traced.code
    assert traced(ad.tensor(1.0), 2, 3)[2:] == (5, 1)


def test_code_can_be_transformed() -> None:
    traced = fx.symbolic_trace(lambda x: x + 1)
    with traced.graph.on_generate_code(lambda before: lambda body: ["seen.append(1)\n", *body]):
        traced.recompile()
    assert "seen.append(1)" in traced.code
    traced.recompile()
    assert "seen" not in traced.code


def test_tables_have_a_row_for_each_node(capsys: pytest.CaptureFixture[str]) -> None:
    make_graph().print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert [line.split()[0] for line in lines[2:]] == ["placeholder", "call_function", "call_method", "output"]
