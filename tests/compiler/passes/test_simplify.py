"""Rewriting: applying rules, folding, sharing and dropping change no value, and take one step per equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.support.programs import Program, programs
from tests.support.tracing import graph_of, names, values

import adjoint as ad
from adjoint.compiler.ir.graph import Argument, Constant, Graph, Value, ValueOrigin
from adjoint.compiler.passes import rewriter as rewriting
from adjoint.compiler.passes.simplify import rewrite
from adjoint.core.op.spec import Spec
from adjoint.ops.elementwise.arithmetic import add, mul, neg
from adjoint.ops.movement.movement import permute, reshape


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
        (lambda x: (x + 0.0, x + (-0.0)), ["add"]),
        (lambda x: (x * x.T, x.T * x, x.T + x, x + x.T), ["permute", "mul", "add"]),
        (lambda x: (x - x.T, x.T - x), ["permute", "sub", "sub"]),
        (lambda x: (x * x, ad.square(x), x**2), ["square"]),
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
        (lambda x: x.unsqueeze(0).expand(5, 3, 4).expand(5, 3, 4), ["expand"]),
        (lambda x: x.unsqueeze(1).expand(3, 5, 4), ["reshape", "expand"]),
        (lambda x: x[1:][:, 1:3][1:], ["slice"]),
        (lambda x: ad.nn.functional.pad(x, (1, 2))[:, 1:-2], []),
        (lambda x: x.flip(0).flip(1).flip(0), ["flip"]),
        (lambda x: x.unsqueeze(0)[0], []),
        (lambda x: x.unsqueeze(0).transpose(0, 1).squeeze(1), []),
        (lambda x: x.unsqueeze(0).expand(5, 3, 4) * x, ["expand", "mul"]),
        (lambda x: x.sum(0, keepdim=True).expand(3, 4) * x, ["sum", "mul"]),
        (lambda x: x.exp().clone(), ["exp"]),
        (lambda x: x.clone(), ["copy"]),
        (lambda x: x.T.clone(), ["permute", "copy_in_order"]),
        (lambda x: x.reshape(3, 4, 1).permute(2, 0, 1).permute(2, 1, 0), ["reshape", "permute"]),
        (lambda x: x.to(ad.float64).to(ad.float64), ["cast"]),
        (lambda x: x.to(ad.float64).to(ad.float32), []),
        (lambda x: x.to(ad.float16).to(ad.float32), ["cast", "cast"]),
        (lambda x: (x.to(ad.float64) * x.T.reshape(3, 4).to(ad.float64)).to(ad.float32), ["permute", "reshape", "mul"]),
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


def test_so_it_is_for_stacks_of_matrices() -> None:
    numbers = np.random.default_rng(0)
    for shapes in [((5, 2, 3), (5, 3, 4)), ((2, 3), (5, 3, 4)), ((2, 5, 2, 3), (5, 3, 4))]:
        a, b = (numbers.integers(-4, 5, shape).astype(np.float32) for shape in shapes)
        graph = rewrite(graph_of(lambda a, b: (a @ b).transpose(-1, -2) * 2, a, b))
        graph.verify()
        assert [n for n in names(graph) if n != "expand"] == ["permute", "permute", "bmm", "mul"]
        np.testing.assert_array_equal(values(graph, a, b)[0], (a @ b).swapaxes(-1, -2) * 2)
    a, b = numbers.normal(size=(2, 5, 2, 3)), numbers.normal(size=(2, 5, 3, 4))
    assert names(rewrite(graph_of(lambda a, b: (a @ b).transpose(0, 1), a, b)))[-2:] == ["bmm", "permute"]


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
    assert [v for v in simpler.inputs if not isinstance(v.source, Constant)] == graph.inputs_of_kind(Argument)
    again = rewrite(simpler)
    assert names(again) == names(simpler)


def constants(graph: Graph) -> list[Any]:
    return [v.source.array.tolist() for v in graph.inputs_of_kind(Constant)]


@pytest.mark.parametrize(
    ("function", "expected", "kept"),
    [
        (lambda x: x * ad.exp(ad.tensor([0.0, 1.0])), ["mul"], 1),
        (lambda x: x * (ad.tensor(6.0) / 4.0), ["mul"], 0),
        (lambda x: x * ad.tensor([[1.0, 2.0], [3.0, 4.0]]).T.sum(0), ["mul"], 1),
        (lambda x: x * ad.tensor(0.0), ["mul"], 0),
        (lambda x: x * ad.tensor(1.0), [], 0),
        (lambda x: x * ad.tensor(1.0).expand(2), [], 0),
        (lambda x: x * ad.ones(2), [], 0),
        (lambda x: x / ad.full((2,), 4.0), ["mul"], 0),
        (lambda x: ad.where(x > ad.tensor(0.0), x, ad.zeros(2)), ["gt", "where"], 0),
        (lambda x: x * ad.tensor([1.0, 1.0]), ["mul"], 1),
        (lambda x: x + ad.tensor(1.0).expand(3, 2), ["expand", "add"], 1),
        (lambda x: ad.tensor([[1.0], [2.0]]) * ad.tensor([3.0, 4.0]) + x, ["mul", "add"], 2),
        (lambda x: ad.tensor([1.0, 2.0]).to(ad.float64).sum() * x, ["mul"], 0),
        (lambda x: (x * ad.tensor([1.0, 2.0]), x + ad.tensor([1.0, 2.0])), ["mul", "add"], 1),
        (lambda x: x + ad.tensor([2, 4])[ad.tensor([1, 1])], ["add"], 1),
        (lambda x: x * ad.tensor([5, 7]).remainder(ad.tensor([2, 3])), ["mul"], 1),
    ],
)
def test_what_is_known_is_computed_before_the_program_runs(function: Any, expected: list[str], kept: int) -> None:
    x = np.array([1.5, -0.0], np.float32)
    traced = graph_of(function, x)
    graph = rewrite(traced)
    graph.verify()
    for ours, theirs in zip(values(graph, x), values(traced, x), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))
    assert [n for n in names(graph) if n != "reshape"] == expected
    assert len(constants(graph)) == kept


def test_folding_takes_the_bits_of_the_reference_executor() -> None:
    numbers = np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32)
    for function in (ad.exp, ad.tanh, ad.sin, lambda t: t @ t, lambda t: ad.softmax(t, 1), lambda t: t.sum(0)):
        traced = graph_of(lambda x: (function(ad.tensor(numbers)), x), numbers)  # noqa: B023
        graph = rewrite(traced)
        assert names(graph) == []
        np.testing.assert_array_equal(values(graph, numbers)[0], values(traced, numbers)[0])


def test_what_is_large_is_drawn_or_may_raise_is_left_to_the_program() -> None:
    large = np.zeros(1 << 17, np.float32)
    assert names(rewrite(graph_of(lambda x: ad.exp(ad.tensor(large)) + x, large))) == ["exp", "add"]
    assert "outer" not in names(rewrite(graph_of(lambda x: ad.rand(1) + x, large)))
    drawn = rewrite(graph_of(lambda x: ad.bernoulli(ad.tensor([0.5])) + x, large))
    assert [v.op.family for v in drawn.equations if v.op.effect] == ["random"]
    faulty = graph_of(lambda x: ad.tensor([1, 2]) // ad.tensor([0, 1]) + x, large[:2])
    assert names(rewrite(faulty)) == names(faulty)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        values(rewrite(faulty), large[:2])


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_stay_arrays(number: float) -> None:
    x = np.ones(2, np.float32)
    graph = rewrite(graph_of(lambda x: x * ad.tensor(number), x))
    assert constants(graph) == pytest.approx([number], nan_ok=True)
    np.testing.assert_array_equal(values(graph, x)[0], x * np.float32(number))


def test_an_equation_remembers_the_lines_that_share_it_and_what_replaces_one_has_its_line() -> None:
    def function(x: Any) -> Any:
        a = ad.exp(x)
        b = ad.exp(x)
        return a * b.T, ad.logical_not(a == x)

    graph = rewrite(graph_of(function, np.ones((2, 2), np.float32)))
    exp, *_, unequal = graph.equations
    first = function.__code__.co_firstlineno
    assert unequal.op.name == "ne"
    assert [o.site.line - first for o in (exp.origin, *exp.origin.merged_origins)] == [1, 2]
    assert isinstance(unequal.origin, ValueOrigin)
    assert unequal.origin.site.line - first == 3
    assert unequal.origin.merged_origins == ()


def chain(length: int) -> Graph:
    """Equations of which most can be simplified with the one before."""
    graph = Graph("chain")
    spec = Spec((3, 4), np.dtype(np.float32))
    turned = Spec((4, 3), np.dtype(np.float32))
    x = y = graph.input(spec, Argument(0, "x"))
    for i in range(length // 8):
        for function in (neg, neg):
            x = graph.add(function.op, (x,), {}, spec, None)  # type: ignore[attr-defined]
        x = graph.add(mul.op, (x, 1.0 + i % 2), {}, spec, None)  # type: ignore[attr-defined]
        x = graph.add(add.op, (x, y), {}, spec, None)  # type: ignore[attr-defined]
        x = graph.add(permute.op, (x,), {"axes": (1, 0)}, turned, None)  # type: ignore[attr-defined]
        x = graph.add(reshape.op, (x,), {"shape": (12,)}, Spec((12,), spec.dtype), None)  # type: ignore[attr-defined]
        x = graph.add(reshape.op, (x,), {"shape": (4, 3)}, turned, None)  # type: ignore[attr-defined]
        x = graph.add(permute.op, (x,), {"axes": (1, 0)}, spec, None)  # type: ignore[attr-defined]
    graph.outputs = [x]
    return graph


def test_a_chain_of_20000_equations_takes_attempts_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0
    attempt = rewriting.apply_rule

    def counted(rule: Any, value: Value) -> Any:
        nonlocal attempts
        attempts += 1
        return attempt(rule, value)

    monkeypatch.setattr(rewriting, "apply_rule", counted)
    counts = []
    for length in (2_000, 20_000):
        attempts = 0
        graph = chain(length)
        simpler = rewrite(graph)
        simpler.verify()
        assert len(simpler.equations) == length // 8 * 3 // 2
        counts.append(attempts / length)
    assert counts[0] == pytest.approx(counts[1], rel=0.01)
    assert counts[1] < 20
