"""Gradients on graphs: what `compute_gradient` makes within `symbolic()`, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import function, raises

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.autograd import gradcheck
from adjoint.compiler import as_function, compute_gradient, symbolic
from adjoint.compiler.expressions import graph_gradient as gradients
from adjoint.compiler.passes.simplify import rewrite
from adjoint.core.op.families import unary
from adjoint.ops.elementwise import arithmetic, transcendental
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction


def const(values: Any) -> Any:
    return ad.tensor(values, dtype=ad.float64)


def derived(function: Callable[..., Any], *points: Any, weights: Any = None) -> list[Any]:
    """The gradient of `function` by each of its arguments, as lists, through a graph."""
    with symbolic():
        xs = [const(point) for point in points]
        y = function(*xs)
        found = compute_gradient(y, ad.ones(y.shape) if weights is None else const(weights), xs)
    return [found[x].tolist() if x in found else None for x in xs]


def counted(monkeypatch: pytest.MonkeyPatch, op: Any) -> list[str]:
    """A list that grows with each call of a gradient rule of the op."""
    calls: list[str] = []

    def counting(rule: Any) -> Any:
        def call(*arguments: Any) -> Any:
            calls.append(op.name)
            return rule(*arguments)

        return call

    needs = op.needs
    monkeypatch.setattr(op, "rules", tuple(map(counting, op.rules)))
    monkeypatch.setattr(op, "needs", needs)
    return calls


@pytest.mark.claim("1.1")
def test_nothing_is_executed_until_the_result_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    op = arithmetic.mul.op  # type: ignore[attr-defined]
    evaluate, runs = op.evaluate, []
    monkeypatch.setattr(op, "evaluate", lambda x, y: runs.append(1) or evaluate(x, y))
    with ad.compiler.symbolic() as graph:
        w = const([1.0, 2.0])
        loss = (w * w * 3.0).sum()
        found = ad.compiler.compute_gradient(loss, None, {w})
    assert list(found) == [w]
    assert "symbolic" in repr(found[w])
    assert not runs
    assert not graph.arrays
    assert found[w].tolist() == [6.0, 12.0]
    assert runs
    ran = len(runs)
    assert found[w].tolist() == [6.0, 12.0]
    assert len(runs) == ran


@pytest.mark.claim("1.1")
def test_backward_in_the_block_makes_the_same_equations() -> None:
    def loss(w: Any) -> Any:
        return (ad.exp(w) * w).sum()

    with symbolic() as one:
        w = const([1.0, 2.0])
        ours = compute_gradient(loss(w), None, {w})[w]
    with symbolic() as other:
        v = const([1.0, 2.0]).requires_grad_()
        loss(v).backward()
        assert v.grad is not None
    assert [e.op.name for e in one.equations] == [e.op.name for e in other.equations if e.op.name != "detach"]
    assert ours.tolist() == v.grad.tolist()


@pytest.mark.claim("1.2")
def test_the_root_is_seeded() -> None:
    with symbolic():
        x = const(1.0)
        assert compute_gradient(x * 3.0, const(2.0), {x})[x].item() == 6.0
        assert compute_gradient(x * 3.0, None, {x})[x].item() == 3.0
        assert compute_gradient(x * 3.0, 2, {x})[x].item() == 6.0
        assert compute_gradient(x, None, {x})[x].item() == 1.0
        wide = x.expand(3) * 2.0
        assert compute_gradient(wide, ad.tensor([1.0, 2.0, 3.0]), [x])[x].item() == 12.0
        with pytest.raises(RuntimeError, match=r"only for scalar outputs; this one is f64\[3\]"):
            compute_gradient(wide, None, {x})
        with pytest.raises(RuntimeError, match=r"root_grad is f64\[2\], the root f64\[3\]"):
            compute_gradient(wide, const([1.0, 1.0]), {x})
        raises(RuntimeError, r"the root is i64\[\]: only floating", lambda: compute_gradient(x.to(ad.int64), None, {x}))
    with pytest.raises(RuntimeError, match=r"works on the tensors of a symbolic\(\) block; elsewhere"):
        compute_gradient(const(1.0), None, [])


@pytest.mark.claim("1.3")
def test_only_what_leads_to_the_targets_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch, transcendental.exp.op)  # type: ignore[attr-defined]
    with symbolic():
        w, v = const([1.0, 2.0]), const([3.0, 4.0])
        loss = (w * w).sum() + ad.exp(ad.exp(v)).sum()
        found = compute_gradient(loss, None, {w})
        assert calls == []
        assert v not in found
        assert found[w].tolist() == [2.0, 4.0]
        assert set(compute_gradient(loss, None, {w, v})) == {w, v}
        assert len(calls) == 2
        unused = const(1.0)
        assert compute_gradient(loss, None, {unused}) == {}


@pytest.mark.claim("1.4")
def test_the_walk_visits_each_node_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch, arithmetic.add.op)  # type: ignore[attr-defined]
    with symbolic() as graph:
        x = y = const(1.0)
        for _ in range(60):
            y = y + y
        before = len(graph.equations)
        g = compute_gradient(y, None, {x})[x]
        assert len(calls) == 2 * 60
        assert len(graph.equations) - before == 60
    assert g.item() == 2.0**60


@pytest.mark.claim("1.4")
def test_depth_costs_no_stack() -> None:
    with symbolic():
        x = y = const(1.0)
        for _ in range(5_000):
            y = y + 1.0
        g = compute_gradient(y, None, {x})[x]
    assert y.item() == 5_001.0
    assert g.item() == 1.0


@pytest.mark.claim("1.5")
def test_no_producer_runs_before_one_of_its_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[Any] = []
    follow = gradients._GradientTracer.follow
    monkeypatch.setattr(
        gradients._GradientTracer, "follow", lambda self, node: (order.append(node), follow(self, node))[1]
    )
    with symbolic():
        x = const([0.5, 1.5])
        a = ad.exp(x)
        b = ad.sin(a) * a
        _ = a * 3.0
        loss = (b / (a + b)).sum() + (b * x).sum()
        compute_gradient(loss, None, {x})
    nodes = list(dict.fromkeys(node for node in order if node is not None))
    done: set[Any] = set()
    for node in nodes:
        assert done.issuperset(n for n in nodes if any(parent is node for parent in n.parents))
        done.add(node)
    assert [n.name() for n in nodes].count("mul") == 2  # the dead product is none of them
    assert len(nodes) == 9


@pytest.mark.claim("1.6")
def test_rules_are_checked_where_they_are_declared() -> None:
    from adjoint.core.op.families import binary

    with pytest.raises(TypeError, match=r"op twisted: rule dz= has no input 'z'; inputs are \('x', 'y'\)"):

        @binary(dx=lambda g: g, dy=lambda g: g, dz=lambda g: g)
        def twisted(x: Any, y: Any) -> Any:
            """x + y."""
            return x + y

    Two = function(lambda ctx, x, y: x * y, lambda ctx, *grads: grads[0], "Two")
    with symbolic(), pytest.raises(RuntimeError, match=r"symbolic\(\) cannot hold Two: compute_gradient would not"):
        Two.apply(const(1.0), const(2.0))


@pytest.mark.claim("1.7")
def test_contributions_are_summed() -> None:
    a, b = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]
    assert derived(lambda x, y: x * y + x * y, a, b) == [[8.0, 10.0, 12.0], [2.0, 4.0, 6.0]]
    assert derived(lambda x: x + x, 1.0) == [2.0]


@pytest.mark.claim("1.8")
def test_an_equation_of_the_gradient_knows_the_line_and_op_it_belongs_to() -> None:
    with symbolic() as graph:
        x = const(2.0)
        y = ad.sin(x)
        forward = list(graph.equations)
        g = compute_gradient(y, const(3.0), {x})[x]
    line = test_an_equation_of_the_gradient_knows_the_line_and_op_it_belongs_to.__code__.co_firstlineno + 4
    assert [(e.op.name, e.origin.backward, e.origin.site.line) for e in forward] == [("sin", False, line)]
    made = graph.equations[len(forward) :]
    assert [e.op.name for e in made] == ["cos", "mul"]
    for equation in made:
        assert (equation.origin.of, equation.origin.backward) == ("sin", True)
        assert (equation.origin.site.file, equation.origin.site.line) == (__file__, line)
        assert equation.origin.site.function.startswith("test_an_equation")
    assert g.array is made[-1]


@pytest.mark.claim("1.8")
def test_an_equation_that_two_ops_share_has_both_records() -> None:
    with symbolic() as graph:
        x = const([1.0, 2.0])
        y = ad.sin(x) + ad.cos(x)
        g = compute_gradient(y.sum(), None, {x})[x]
    graph.outputs = [y.array, g.array]
    argument = x.array
    argument.source = None  # not a constant, to be folded
    simpler = rewrite(graph)
    cos = [e for e in simpler.equations if e.op.name == "cos"]
    assert len(cos) == 1
    assert [(o.of, o.backward) for o in (cos[0].origin, *cos[0].origin.merged_origins)] == [("", False), ("sin", True)]


ROWS: dict[str, tuple[Callable[..., Any], list[Any], list[Any]]] = {
    "add": (lambda x, y: x + y, [2.0, 3.0], [1.0, 1.0]),
    "mul": (lambda x, y: x * y, [2.0, 3.0], [3.0, 2.0]),
    "sub": (lambda x, y: x - y, [2.0, 3.0], [1.0, -1.0]),
    "max": (ad.maximum, [2.0, 3.0], [0.0, 1.0]),
    "max_tie": (ad.maximum, [2.0, 2.0], [0.5, 0.5]),
    "reciprocal": (ad.reciprocal, [2.0], [-0.25]),
    "sin": (ad.sin, [2.0], [-0.4161468365471424]),
    "log2": (ad.log2, [2.0], [0.7213475204444817]),
    "exp2": (ad.exp2, [2.0], [2.772588722239781]),
    "sqrt": (ad.sqrt, [4.0], [0.25]),
    "sqrt_at_0": (ad.sqrt, [0.0], [math.inf]),
    "expand": (lambda x: x.expand(3, 4), [[[1.0], [2.0], [3.0]]], [[[4.0], [4.0], [4.0]]]),
    "shrink": (lambda x: x[:, 1:], [[[1.0] * 3] * 2], [[[0.0, 1.0, 1.0]] * 2]),
    "sum": (lambda x: x.sum(), [[[1.0, 2.0], [3.0, 4.0]]], [[[1.0, 1.0], [1.0, 1.0]]]),
    "max_ties": (lambda x: ad.amax(x), [[1.0, 3.0, 3.0]], [[0.0, 0.5, 0.5]]),
    "max_ties_with_indices": (lambda x: ad.max(x, 0)[0], [[1.0, 3.0, 3.0]], [[0.0, 1.0, 0.0]]),
    "prod": (lambda x: ad.prod(x), [[2.0, 3.0, 4.0]], [[12.0, 8.0, 6.0]]),
    "prod_one_zero": (lambda x: ad.prod(x), [[2.0, 0.0, 3.0]], [[0.0, 6.0, 0.0]]),
    "prod_two_zeros": (lambda x: ad.prod(x), [[0.0, 0.0, 3.0]], [[0.0, 0.0, 0.0]]),
    "where": (
        lambda c, x, y: ad.where(c > 0, x, y),
        [[1.0, 0.0, 1.0], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
        [None, [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]],
    ),
    "contiguous": (lambda x: x.T.contiguous().clone(), [[[1.0, 2.0]]], [[[1.0, 1.0]]]),
    "detach": (lambda x: x.detach() * x, [2.0], [2.0]),
    "only_detached": (lambda x: x.detach() * 3.0, [2.0], [None]),
}


@pytest.mark.claim(
    "1.9", "1.10", "1.11", "1.12", "1.13", "1.14", "1.15", "1.16", "1.17", "1.18", "1.19", "1.20",
    "1.21", "1.22", "1.24", "1.25",
)  # fmt: skip
@pytest.mark.parametrize("row", ROWS)
def test_rules_at_points(row: str) -> None:
    function, points, expected = ROWS[row]
    for ours, theirs in zip(derived(function, *points), expected, strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-15)


@pytest.mark.claim("1.12", "1.20")
def test_nan_is_a_maximum_like_any_other() -> None:
    assert derived(ad.amax, [math.nan, 1.0, math.nan]) == [[0.5, 0.0, 0.5]]  # no 0/0
    assert derived(ad.maximum, math.nan, 1.0) == eager(ad.maximum, math.nan, 1.0)
    assert np.isnan(derived(lambda x: ad.amax(x) * ad.amax(x), [math.nan, 1.0])[0][0])


def eager(function: Callable[..., Any], *points: float) -> list[Any]:
    """The gradient as `backward` has it."""
    leaves = [const(point).requires_grad_() for point in points]
    return [g.item() for g in ad.autograd.grad(function(*leaves), leaves) if g is not None]


@pytest.mark.claim("1.18")
def test_movements_go_back() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    weights = np.random.default_rng(0).normal(size=(4, 2, 3))
    (g,) = derived(lambda t: t.permute(2, 0, 1), x, weights=weights)
    np.testing.assert_array_equal(g, weights.transpose(1, 2, 0))
    (g,) = derived(lambda t: t.reshape(4, 2, 3), x, weights=weights)
    np.testing.assert_array_equal(g, weights.reshape(2, 3, 4))
    (g,) = derived(lambda t: F.pad(t, (1, 2)), np.ones((2, 3)), weights=np.arange(12.0).reshape(2, 6))
    assert g == [[1.0, 2.0, 3.0], [7.0, 8.0, 9.0]]
    (g,) = derived(lambda t: t.flip(0), np.ones(3), weights=[1.0, 2.0, 3.0])
    assert g == [3.0, 2.0, 1.0]


@pytest.mark.claim("1.18")
def test_the_gradient_of_a_movement_is_the_movement_back() -> None:
    with symbolic() as graph:
        x = const(np.zeros((2, 3, 4)))
        y = x.permute(2, 0, 1)
        compute_gradient(y, const(np.ones((4, 2, 3))), {x})
    back = graph.equations[-1]
    assert back.op is movement.permute.op  # type: ignore[attr-defined]
    assert back.params["axes"] == (1, 2, 0)


@pytest.mark.claim("1.19")
def test_a_sum_goes_back_as_an_expansion() -> None:
    with symbolic() as graph:
        x = const(np.zeros((2, 3)))
        g = compute_gradient(x.sum(1), const([5.0, 7.0]), {x})[x]
    assert graph.equations[-1].op is movement.expand.op  # type: ignore[attr-defined]
    assert g.tolist() == [[5.0] * 3, [7.0] * 3]


@pytest.mark.claim("1.23")
def test_a_gradient_has_the_type_of_its_target() -> None:
    with symbolic():
        x = ad.tensor([1.0, 2.0], dtype=ad.float32)
        g = compute_gradient((x.to(ad.float64) * 3.0).sum(), None, {x})[x]
        assert g.dtype == ad.float32
        assert compute_gradient((x.to(ad.int64) * 2).to(ad.float32).sum(), None, {x}) == {}
    assert g.tolist() == [3.0, 3.0]


@pytest.mark.claim("1.26")
def test_no_gradient_crosses_the_assignment_of_a_buffer() -> None:
    with symbolic():
        x = const([1.0, 2.0])
        buffer, data = const([0.0, 0.0]), const([0.0, 0.0])
        made = 3.0 * x  # where gradients are on
        with ad.no_grad():
            buffer.copy_(made)
        data.data = made.data
        for assigned in (buffer, data):
            assert compute_gradient((assigned * 2.0).sum(), None, {x}) == {}
            assert assigned.tolist() == [3.0, 6.0]
        with ad.no_grad():
            moment = 0.9 * buffer + x
        assert compute_gradient((moment * 2.0).sum(), None, {x, buffer}) == {}
        tracked = const([0.0, 0.0])
        tracked.copy_(made)  # recorded: it flows
        assert compute_gradient((tracked * 2.0).sum(), None, {x})[x].tolist() == [6.0, 6.0]
        part = const([0.0, 0.0, 0.0])
        part[1:] = made
        assert compute_gradient((part * part).sum(), None, {x})[x].tolist() == [18.0, 36.0]


@pytest.mark.claim("1.27")
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1, (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax"])
def test_reductions_along_any_axes(name: str, dim: Any, keepdim: bool) -> None:
    if name == "prod" and isinstance(dim, tuple):
        dim = dim[-1]
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    expected = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "amax": np.max}[name](x, axis=dim, keepdims=True)
    shape = expected.shape if keepdim else expected.squeeze(dim).shape
    seed = np.random.default_rng(1).standard_normal(shape)
    (g,) = derived(lambda t: getattr(ad, name)(t, dim=dim, keepdim=keepdim), x, weights=seed)
    slope = {"sum": 1.0, "mean": expected.size / x.size, "prod": expected / x, "amax": 1.0 * (x == expected)}[name]
    np.testing.assert_allclose(g, seed.reshape(expected.shape) * np.broadcast_to(slope, x.shape), rtol=1e-12)


@pytest.mark.claim("1.28")
def test_a_gradient_is_differentiated_again() -> None:
    with symbolic():
        x = const(2.0)
        y, found = x**3, []
        for _ in range(3):
            y = compute_gradient(y, None, {x})[x]
            found.append(y)
    assert [g.item() for g in found] == [12.0, 12.0, 6.0]
    again = as_function([x], found)
    assert [g.item() for g in again(const(2.0))] == [12.0, 12.0, 6.0]
    leaf = const(3.0).requires_grad_()
    again(leaf)[0].backward()
    assert leaf.grad.item() == 18.0


def chain(x: Any) -> Any:
    return ad.tanh(ad.sin(x) * x + 1.0) * 2.0


@pytest.mark.claim("1.28")
def test_forward_and_backward_of_a_chain_are_one_kernel() -> None:
    pytest.importorskip("llvmlite")
    x = np.linspace(-2.0, 2.0, 1003)
    with symbolic():
        t = const(np.zeros(1003))
        y = chain(t)
        g = compute_gradient(y, ad.ones(1003, dtype=ad.float64), {t})[t]
    leaf = const(x).requires_grad_()
    chain(leaf).sum().backward()
    step = ad.compile(as_function([t], [y, g]))
    value, slope = step(const(x))
    assert [kernel["kind"] for kernel in step.kernels] == ["kernel"]
    np.testing.assert_allclose(value.numpy(), chain(const(x)).numpy(), rtol=1e-12)
    np.testing.assert_allclose(slope.numpy(), leaf.grad.numpy(), rtol=1e-10, atol=1e-14)

    @ad.compile
    def whole(x: Any) -> Any:
        x = x.detach().requires_grad_()
        y = chain(x)
        (g,) = ad.autograd.grad(y, x, ad.ones_like(y))
        return y.detach(), g

    value, slope = whole(const(x))
    assert [kernel["kind"] for kernel in whole.kernels] == ["kernel"]
    np.testing.assert_allclose(slope.numpy(), leaf.grad.numpy(), rtol=1e-10, atol=1e-14)


@pytest.mark.claim("1.29")
def test_a_graph_saves_nothing_it_computes_again_what_is_asked_for() -> None:
    with symbolic() as graph:
        x = const([0.5, 1.0])
        loss = ad.exp(ad.sin(x)).sum()
        g = compute_gradient(loss, None, {x})[x]
    np.testing.assert_allclose(g.numpy(), np.exp(np.sin([0.5, 1.0])) * np.cos([0.5, 1.0]), rtol=1e-15)
    again = as_function([x], [g])
    assert {e.op.name for e in graph.equations} == {"sin", "exp", "sum", "expand", "mul", "cos"}
    np.testing.assert_array_equal(again(const([0.5, 1.0]))[0].numpy(), g.numpy())


@pytest.mark.claim("1.30")
def test_a_new_op_is_differentiable_by_one_rule() -> None:
    @unary(dx=lambda g, x: g * (x * x * 3.0))
    def cube(x: Any) -> Any:
        """x³."""
        return x**3

    assert derived(cube, 2.0) == [12.0]
    gradcheck(cube, const([1.0, -2.0]).requires_grad_())

    @unary()
    def ruleless(x: Any) -> Any:
        """x + 1."""
        return x + 1.0

    with symbolic():
        x = const(2.0)
        y = ruleless(x) * 2.0
        with pytest.raises(RuntimeError, match=r"no gradient rule for ruleless, used at .*test_builder.py:\d+(\n|$)"):
            compute_gradient(y, None, {x})
        other = const(1.0)
        assert compute_gradient(y * other, None, {other})[other].item() == 6.0  # it does not lie on the way


@pytest.mark.claim("1.22", "U10")
def test_a_branch_not_chosen_gives_no_nan() -> None:
    (g,) = derived(lambda a: ad.where(a <= 0, ad.exp(a), 1 + a), np.array([1000.0, -1.0]))
    assert g == [1.0, math.exp(-1.0)]


@pytest.mark.claim("1.13")
def test_a_reciprocal_uses_its_result() -> None:
    with symbolic() as graph:
        x = const(2.0)
        y = ad.reciprocal(x)
        compute_gradient(y, None, {x})
    square = graph.equations[1]
    assert square.op is arithmetic.mul.op  # type: ignore[attr-defined]
    assert square.inputs == (y.array, y.array)


def test_a_tensor_from_outside_takes_part_with_its_values() -> None:
    w = const([1.0, 2.0])
    with symbolic():
        loss = (w * w).sum()
        g = compute_gradient(loss, None, {w})[w]
        assert w.tolist() == [1.0, 2.0]
        assert bool(loss > 4.0)
    w.add_(10.0)
    assert g.tolist() == [2.0, 4.0]
    assert compute_gradient(loss, None, {w})[w].tolist() == [2.0, 4.0]  # after the block too


def test_what_would_be_lost_raises_and_everything_is_put_back() -> None:
    w = const([1.0, 2.0]).requires_grad_()
    with pytest.raises(RuntimeError, match=r"shape \[2\], was written within it, or got a gradient"), symbolic():
        (w * 2.0).sum().backward()
    assert w.grad is None
    v = const([1.0])
    with pytest.raises(RuntimeError, match="clone"), symbolic():
        v.add_(1.0)
    assert v.tolist() == [1.0]
    with pytest.raises(TypeError), symbolic():
        len(v.add_(1.0)[0])
    assert v.tolist() == [1.0]
    with symbolic(), pytest.raises(RuntimeError, match="nor within itself"), symbolic():
        pass


def test_random_numbers_are_drawn_once_when_they_are_read() -> None:
    ad.manual_seed(0)
    expected = ad.rand(3).tolist()
    ad.manual_seed(0)
    with symbolic():
        x = ad.rand(3)
        y = x * 2.0
    assert y.tolist() == [2.0 * e for e in expected]
    assert x.tolist() == expected


def test_as_function_takes_what_it_does_not_depend_on_with_its_values() -> None:
    with symbolic():
        a, b = const([1.0, 2.0]), const([3.0, 4.0])
        c = ad.exp(b)
        out = (a * c).detach() + reduction.sum(a, axes=(0,), keepdims=False)
        alone = c * 2.0
    function = as_function([a], [out, alone, a])
    x = const([5.0, 6.0]).requires_grad_()
    first, second, third = function(x)
    np.testing.assert_allclose(first.detach().numpy(), np.exp([3.0, 4.0]) * [5.0, 6.0] + 11.0)
    assert second.tolist() == alone.tolist()
    assert third is x
    first.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    raises(TypeError, "takes 1 tensors, but 2", lambda: function(x, x))
    raises(ValueError, r"shape \[2\] is not one of a symbolic", lambda: as_function([x], [out]))
