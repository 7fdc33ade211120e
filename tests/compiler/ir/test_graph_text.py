"""`Graph.parse` reads what `str(graph)` prints: the same text, the same values; and it names the line of an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.support.programs import Program, programs
from tests.support.samples import SAMPLES, Sample
from tests.support.tracing import graph_of

import adjoint as ad
from adjoint.compiler.ir.graph import Argument, Constant, Graph, IncomingGrad, ScalarInput, Setting, StateInput
from adjoint.compiler.ir.graph_text import GraphSyntaxError, format_literal, read_dtype, read_literal
from adjoint.compiler.ir.interpreter import evaluate
from adjoint.compiler.trace.tracer import Tracer

EVERY_INPUT = """\
graph inputs
  %0: f32[2] = argument x
  %1: f32[] = state 0.weight momentum_buffer
  %2: f32[] = state
  %3: f64[] = setting lr
  %4: i64[] = number x3
  %5: f32[2] = gradient of result 1
  %6: f32[] = constant 2.5
  %7: i64[3] = constant [0, -1, 2]
  %8: f32[2] = constant [nan, -inf]
  %9: c64[] = constant (1-2j)
  %10: bool[1] = constant True
  %11: u8[0] = constant []
  %12: f32[17] = constant
  return %0, %12
"""
EVERY_ORIGIN = """\
graph a step
  %0: f32[2,3] = argument 0
  %1: f32[3,2] = permute(%0, axes=(1, 0))                               # a b.py:7 in step
  %2: f32[3,2] = mul(%1, -inf)                                          # a.py:8 in <lambda> · 0.linear
  %3: f32[3,2] = mul(0.5, %1)                                           # a.py:8 in step · 0.linear · backward
  %4: f64[3,2] = cast(%3, dtype=float64)                                # a.py:8 in step · again
  %5: f32[] = full(shape=(), value=1.0, dtype=float32)
  %6: f32[4] = uniform(shape=(4,), dtype=float32, low=0.0, high=1.0)
  return %4
"""


def _traced(sample: Sample) -> tuple[Graph, list[Any]]:
    """The sample's graph, and the arrays of its arguments."""
    inputs = [ad.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in sample.arrays(np.float32)]
    tracer = Tracer(sample.name)
    tensors = [x for x in inputs if isinstance(x, ad.Tensor)]
    arrays = [x.numpy() for x in tensors]
    for i, tensor in enumerate(tensors):
        tracer.bind_argument(tensor, i, str(i))
    try:
        tracer.graph.outputs = [tracer.adopt(tracer.trace(sample.function, tuple(inputs), sample.settings()))]
    finally:
        tracer.restore()
    return tracer.graph, arrays


def _values(graph: Graph, arrays: list[Any]) -> list[Any]:
    return evaluate(graph, {v: arrays[v.source.number] for v in graph.inputs_of_kind(Argument)})


def _check_round_trip(graph: Graph, arrays: list[Any]) -> None:
    names = graph.names()
    constants = {names[v]: v.source.array for v in graph.inputs_of_kind(Constant)}
    parsed = Graph.parse(str(graph), constants)
    assert str(parsed) == str(graph)
    if not any(v.op.family == "random" or "generator" in v.params for v in graph.equations):
        parsed.verify()
        for ours, expected in zip(_values(parsed, arrays), _values(graph, arrays), strict=True):
            assert ours.dtype == expected.dtype
            np.testing.assert_array_equal(ours, expected)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.op.name != "put_view"], ids=lambda s: s.name)
def test_samples_read_back_as_they_print(sample: Sample) -> None:
    _check_round_trip(*_traced(sample))


@given(programs(exact=False))
@settings(max_examples=60)
def test_random_programs_read_back_as_they_print(program: Program) -> None:
    _check_round_trip(graph_of(program.run, *program.arguments), program.arguments)


@pytest.mark.parametrize("text", [EVERY_INPUT, EVERY_ORIGIN])
def test_texts_print_as_they_were_read(text: str) -> None:
    assert f"{Graph.parse(text)}\n" == text


def test_inputs_have_the_sources_that_the_text_names() -> None:
    graph = Graph.parse(EVERY_INPUT, {"%12": np.arange(17, dtype=np.float32)})
    kinds = [Argument, StateInput, StateInput, Setting, ScalarInput, IncomingGrad, *[Constant] * 7]
    assert [type(v.source) for v in graph.inputs] == kinds
    assert graph.inputs[0].source == Argument(0, "x")
    assert graph.inputs[5].source.number == 1
    assert [v.source.array.sum() for v in graph.inputs[6:8]] == [2.5, 1]
    assert graph.inputs[12].source.array.sum() == 136
    assert Graph.parse(EVERY_INPUT).inputs[12].source.array.tolist() == [0.0] * 17


def test_origins_say_what_the_text_says() -> None:
    origins = [v.origin for v in Graph.parse(EVERY_ORIGIN).equations]
    assert [o and o.module for o in origins] == ["", "0.linear", "0.linear", "", None, None]
    assert [o and (o.backward, o.rematerialized) for o in origins[:4]] == [
        (False, False), (False, False), (True, False), (True, True),
    ]  # fmt: skip
    assert origins[0].site == ("a b.py", 7, "step")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%1: f32[2] = nonsense(%0)", "there is no op 'nonsense'"),
        ("%1: f33[2] = neg(%0)", "there is no type 'f33'"),
        ("%1: f32[2] = neg(%7)", "%7 is used before it is made"),
        ("%1: f32[2] = neg(%0", "expected `op"),
        ("%1: f32[2] = neg(%0 if 1 else 2)", "expected a literal, not 'value_0 if 1 else 2'"),
        ("%1: f32[2] = neg(print)", "there is no type 'print'"),
        ("%1: f32[2] = tensor x", "there is no input 'tensor x'"),
        ("%1 = neg(%0)", "expected `%n: type"),
        ("%1: f32[2] = neg(%0)  # somewhere", "expected `file:line in function` after the #, not 'somewhere'"),
        ("return %3", "%3 is used before it is made"),
    ],
)
def test_errors_name_the_line(line: str, message: str) -> None:
    with pytest.raises(GraphSyntaxError) as caught:
        Graph.parse(f"graph test\n  %0: f32[2] = argument 0\n  {line}\n")
    assert message in str(caught.value)
    assert str(caught.value).endswith(f", in the line {line!r}")


@pytest.mark.parametrize("value", [1, -0.0, 2.5, True, None, "a 'b' # c", (), (1,), (1, (2.0, None)), np.dtype("f4"),
                                   float("-inf"), 1 - 2j])  # fmt: skip
def test_literals_read_back(value: Any) -> None:
    text = format_literal(value)
    assert format_literal(read_literal(text)) == text
    assert read_literal(text) == value


def test_bfloat16_reads_back() -> None:
    assert read_dtype("bf16") == read_dtype("bfloat16") == ad.bfloat16.numpy
