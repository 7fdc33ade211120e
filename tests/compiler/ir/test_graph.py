"""The graph as text, what its values know of themselves, and what `verify` finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises
from tests.support.tracing import graph_of

from adjoint.compiler.ir.graph import Argument, Graph, Setting, StateInput, TraceError
from adjoint.core.op.spec import Spec
from adjoint.ops.elementwise.arithmetic import add, neg
from adjoint.ops.reduction.reduction import sum as fold

pytest.importorskip("llvmlite")
F32 = np.dtype(np.float32)


def test_inputs_print_where_they_come_from() -> None:
    graph = Graph("inputs")
    graph.input(Spec((2,), F32), Argument(0, "x"))
    graph.input(Spec((), F32), StateInput(lambda: None, "weight"))
    graph.input(Spec((), F32), StateInput(lambda: None, ""))
    graph.input(Spec((), np.dtype(np.float64)), Setting({"lr": 0.5}, ("lr",), "lr"))
    graph.constant(np.float32(2.5))
    graph.constant(np.arange(3))
    assert str(graph).splitlines()[1:-1] == [
        "  %0: f32[2] = argument x", "  %1: f32[] = state weight", "  %2: f32[] = state", "  %3: f64[] = setting lr",
        "  %4: f32[] = constant 2.5", "  %5: i64[3] = constant [0, 1, 2]",
    ]  # fmt: skip
    assert repr(graph) == "<Graph inputs: 0 equations of 6 inputs>"


def test_equations_print_op_operands_parameters_and_origin() -> None:
    graph = graph_of(lambda x: (x.T + 1).sum(1), np.ones((2, 3), np.float32))
    lines = [line.split("#") for line in str(graph).splitlines()]
    assert lines[0] == ["graph test"]
    assert [line[0].strip() for line in lines[2:5]] == [
        "%1: f32[3,2] = permute(%0, axes=(1, 0))",
        "%2: f32[3,2] = add(%1, 1)",
        "%3: f32[3] = sum(%2, axes=(1,), keepdims=False)",
    ]
    assert all(line[1].startswith(" test_graph.py:") for line in lines[2:5])
    assert lines[-1] == ["  return %3"]


def test_a_constant_does_not_follow_later_writes() -> None:
    graph, array = Graph("test"), np.zeros(2)
    value = graph.constant(array)
    array += 1
    assert value.source.array.tolist() == [0.0, 0.0]


def test_values_know_their_size_and_refuse_to_be_read() -> None:
    value = Graph("test").input(Spec((2, 3), F32), Argument(0, "x"))
    assert (value.size, value.nbytes, repr(value)) == (6, 24, "<f32[2,3], symbolic>")
    with pytest.raises(TraceError, match=r"item\(\) reads the value of a tensor, f32\[2,3\], .* at .*test_graph.py"):
        value.refuse("item()")


def test_users_names_and_kinds() -> None:
    graph = graph_of(lambda x: x * x + x, np.ones(2))
    (x,) = graph.inputs
    square, total = graph.equations
    assert graph.users() == {x: [square, total], square: [total], total: []}
    assert list(graph.names().values()) == ["%0", "%1", "%2"]
    assert graph.inputs_of_kind(Argument) == [x]
    assert graph.inputs_of_kind(StateInput) == []


class TestVerify:
    """Planted faults."""

    def graph(self) -> tuple[Graph, Any]:
        graph = Graph("test")
        return graph, graph.input(Spec((2, 3), F32), Argument(0, "x"))

    def test_a_sound_graph(self) -> None:
        graph, x = self.graph()
        graph.outputs = [graph.add(add.op, (x, 1.0), {}, Spec((2, 3), F32), None)]
        graph.verify()

    def test_a_value_used_before_it_is_made(self) -> None:
        graph, x = self.graph()
        first = graph.add(neg.op, (x,), {}, Spec((2, 3), F32), None)
        graph.outputs = [graph.add(neg.op, (first,), {}, Spec((2, 3), F32), None)]
        graph.equations.reverse()
        raises(AssertionError, r"neg.* uses a value before it is made", graph.verify)

    def test_a_value_of_another_graph(self) -> None:
        graph, _ = self.graph()
        graph.add(neg.op, (self.graph()[1],), {}, Spec((2, 3), F32), None)
        raises(AssertionError, "uses a value before it is made", graph.verify)

    def test_an_output_that_is_never_made(self) -> None:
        graph, x = self.graph()
        graph.outputs = [graph.add(neg.op, (x,), {}, Spec((2, 3), F32), None)]
        graph.equations.clear()
        raises(AssertionError, "an output is never made", graph.verify)

    @pytest.mark.parametrize("spec", [Spec((3, 2), F32), Spec((2, 3), np.dtype(np.float64))])
    def test_another_shape_or_type_than_the_op_gives(self, spec: Spec) -> None:
        graph, x = self.graph()
        graph.add(add.op, (x, 1.0), {}, spec, None)
        raises(AssertionError, r"should be f32\[2,3\]", graph.verify)

    def test_a_fold_of_the_wrong_shape(self) -> None:
        graph, x = self.graph()
        graph.add(fold.op, (x,), {"axes": (0,), "keepdims": True}, Spec((3,), F32), None)
        raises(AssertionError, r"should be f32\[1,3\]", graph.verify)
