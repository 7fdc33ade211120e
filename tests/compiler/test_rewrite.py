"""Rewriting: every rule holds to the last bit, and joining, sharing and dropping change no value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.compiler.programs import Program, programs
from tests.compiler.tracing import graph_of, names, values

import adjoint as ad
from adjoint.compiler.evaluate import evaluate
from adjoint.compiler.graph import Graph, Value
from adjoint.compiler.match import RULES, Rule
from adjoint.compiler.rewrite import _rules, rewrite, without_dead
from adjoint.compiler.trace import Tracer
from adjoint.core.mode import Scope
from adjoint.core.spec import Spec
from adjoint.core.tensor import wrap

_rules()  # fills RULES
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e-45, -1e-45, 5e-324, 3.4e38, -3.4e38, 1.5, -2.5]
INTEGERS = [0, 1, -1, 2, -7, 127, -128, 46341, 2**31 - 1, -(2**31)]


def pairs(values: list[Any], dtype: Any) -> list[Any]:
    """Every pair of these values, and random numbers."""
    with np.errstate(all="ignore"):
        each = np.array(values).astype(dtype)
    x, y = (a.reshape(-1) for a in np.meshgrid(each, each))
    if np.dtype(dtype).kind == "f":
        more = np.random.default_rng(0).normal(size=(2, 1000)).astype(dtype)
        return [np.concatenate([x, more[0]]), np.concatenate([y, more[1]])]
    return [x.copy(), y.copy()]


def sides(rule: Rule, dtype: Any) -> tuple[Graph, Graph, list[Value]]:
    """The rule's two sides for operands of this type, traced without rewriting."""
    graphs = []
    for side in (0, 1):
        tracer = Tracer(rule.name)
        holes = [
            tracer.graph.input(Spec((), np.dtype(bool) if hole.dtype == bool else np.dtype(dtype)), hole.source)
            for hole in rule.holes
        ]
        with Scope(recording=False):
            both = tracer.trace(rule.function, tuple(map(wrap, holes)), {})
        tracer.graph.outputs = [both[side].array]
        graphs.append(without_dead(tracer.graph))
    return graphs[0], graphs[1], holes


def applied(graph: Graph, arrays: list[Any]) -> Any:
    with np.errstate(all="ignore"):
        return evaluate(graph, dict(zip(graph.inputs, arrays, strict=True)))[0]


def operands(rule: Rule, dtype: Any) -> list[Any]:
    x, y = pairs(INTEGERS if np.dtype(dtype).kind in "iu" else SPECIAL, dtype)
    free = iter((x, y))
    return [np.arange(x.size) % 2 == 0 if hole.dtype == bool else next(free) for hole in rule.holes]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_both_sides_of_a_rule_are_equal_to_the_bit(rule: Rule, dtype: Any) -> None:
    before, after, _ = sides(rule, dtype)
    arrays = operands(rule, dtype)
    ours, theirs = applied(after, arrays), applied(before, arrays)
    assert ours.dtype == theirs.dtype
    nan = np.isnan(theirs)  # which NaN is left open
    np.testing.assert_array_equal(np.isnan(ours), nan)
    bits = np.dtype(f"u{ours.dtype.itemsize}")
    np.testing.assert_array_equal(ours[~nan].view(bits), theirs[~nan].view(bits))


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_a_rule_fires(rule: Rule) -> None:
    before, after, _ = sides(rule, np.float32)
    graph = rewrite(before)
    graph.verify()
    assert names(graph) == names(rewrite(after))
    assert names(graph) != names(before)
    assert len(graph.equations) <= len(before.equations)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.bool_, np.float16])
@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_a_rule_holds_for_other_types_or_is_not_applied(rule: Rule, dtype: Any) -> None:
    try:
        before, _, _ = sides(rule, dtype)
        arrays = operands(rule, dtype)
        expected = applied(before, arrays)
    except (TypeError, RuntimeError) as error:
        pytest.skip(f"{rule.name} has no meaning for this type: {error}")
    graph = rewrite(before)
    graph.verify()
    ours = applied(graph, arrays)
    assert ours.dtype == expected.dtype
    np.testing.assert_array_equal(ours, expected)


def test_rules_are_documented_by_their_names_and_numbers_are_compared_with_their_sign() -> None:
    assert len({r.name for r in RULES}) == len(RULES)
    x = np.array([0.0, -0.0], np.float32)
    assert names(rewrite(graph_of(lambda x: x - 0.0, x))) == []
    assert names(rewrite(graph_of(lambda x: x - (-0.0), x))) == ["sub"]


def test_a_rule_that_would_change_shape_or_type_is_left() -> None:
    x, c = np.ones((1, 3), np.float32), np.ones((2, 1), bool)
    graph = rewrite(graph_of(lambda c, x: ad.where(c, x, x), c, x))
    assert names(graph) == ["where"]
    assert graph.outputs[0].shape == (2, 3)
    graph = rewrite(graph_of(lambda i: i * 1.0, np.arange(3)))
    assert graph.outputs[0].dtype == np.float32
    assert names(graph) == ["cast"]


def test_equal_equations_are_one() -> None:
    graph = rewrite(graph_of(lambda x: ad.exp(x) + ad.exp(x) * 2, np.ones(3, np.float32)))
    assert names(graph) == ["exp", "mul", "add"]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: (ad.full((2,), 1.0), ad.full((2,), 1)), ["full", "full"]),
        (lambda x: (ad.full((2,), 1.0), ad.full((2,), 1.0)), ["full"]),
        (lambda x: (ad.full((2,), 0.0), ad.full((2,), -0.0)), ["full", "full"]),
        (lambda x: (x * 2.0, x * 2.0, x * -2.0), ["mul", "mul"]),
        (lambda x: (x + 0.0, x + (-0.0)), ["add", "add"]),
        (lambda x: (x.sum(0), x.sum(1), x.sum(0)), ["sum", "sum"]),
        (lambda x: (x.to(ad.float64), x.to(ad.float64)), ["cast"]),
        (lambda x: (ad.maximum(x, x * 2), ad.maximum(x * 2, x)), ["mul", "maximum", "maximum"]),
    ],
)
def test_what_counts_as_equal(function: Any, expected: list[str]) -> None:
    assert names(rewrite(graph_of(function, np.ones((2, 2), np.float32)))) == expected


def test_what_nobody_needs_is_left_out_but_for_effects() -> None:
    def function(x: Any) -> Any:
        ad.exp(x).sum()
        ad.rand(3)
        return x * 2

    graph = rewrite(graph_of(function, np.ones(3, np.float32)))
    assert [n for n in names(graph) if n != "mul"] == [v.op.name for v in graph.equations if v.op.effect]
    assert any(v.op.family == "random" for v in graph.equations)


def test_effects_stay_in_order_and_are_never_shared() -> None:
    graph = graph_of(lambda x: (ad.rand(3), ad.randn(3), ad.rand(3), x + ad.rand(3)), np.ones(3, np.float32))
    before = [v.op.name for v in graph.equations if v.op.effect]
    assert len(before) == 4
    assert [v.op.name for v in rewrite(graph).equations if v.op.effect] == before


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.T.T, []),
        (lambda x: x.reshape(4, 3).reshape(12).reshape(2, 6), ["reshape"]),
        (lambda x: x.reshape(4, 3).reshape(3, 4), []),
        (lambda x: x.unsqueeze(0).expand(5, 3, 4).expand(5, 3, 4), ["reshape", "expand"]),
        (lambda x: x.reshape(3, 4, 1).permute(2, 0, 1).permute(2, 1, 0), ["reshape", "permute"]),
        (lambda x: x.to(ad.float64).to(ad.float64), ["cast"]),
        (lambda x: x.to(ad.float64).to(ad.float32), ["cast", "cast"]),
        (lambda x: x.to(ad.float32), []),
        (lambda x: x.sum(0, keepdim=True).reshape(4), ["sum"]),
        (lambda x: x.sum(0, keepdim=True).reshape(2, 2), ["sum", "reshape"]),
    ],
)
def test_movements_are_joined(function: Any, expected: list[str]) -> None:
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    graph = rewrite(graph_of(function, x))
    assert names(graph) == expected
    np.testing.assert_array_equal(values(graph, x)[0], values(graph_of(function, x), x)[0])


def test_the_transpose_of_a_product_is_the_product_of_transposes() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    graph = rewrite(graph_of(lambda a, b: (a @ b).T * 2, a, b))
    assert names(graph) == ["permute", "permute", "mm", "mul"]
    np.testing.assert_array_equal(values(graph, a, b)[0], (a @ b).T * 2)


def test_a_product_that_others_read_is_not_turned() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    for function in (lambda a, b: ((a @ b).T, (a @ b) * 2), lambda a, b: ((a @ b).T * 2, a @ b)):
        graph = rewrite(graph_of(function, a, b))
        assert names(graph).count("mm") == 1
        for ours, theirs in zip(values(graph, a, b), values(graph_of(function, a, b), a, b), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@settings(max_examples=150)
@given(programs(exact=True, most=16))
def test_rewriting_keeps_specs_shrinks_and_is_done_in_one_go(program: Program) -> None:
    graph = graph_of(program.run, *program.arguments)
    simpler = rewrite(graph)
    simpler.verify()
    assert len(simpler.equations) <= len(graph.equations)
    assert [(v.shape, v.dtype) for v in simpler.outputs] == [(v.shape, v.dtype) for v in graph.outputs]
    assert simpler.inputs is graph.inputs
    again = rewrite(simpler)
    assert names(again) == names(simpler)
