"""Which equations share a kernel, and why others begin a new one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.support.programs import Program, programs
from tests.support.tracing import fused, graph_of, ops

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler.ir.strided_view import StridedView, view_over
from adjoint.compiler.kernels.loop_nest.iteration_space import IterationSpace
from adjoint.compiler.kernels.loop_nest.loop_nest import lower
from adjoint.compiler.kernels.loop_nest.reduction_stages import ReductionStages
from adjoint.compiler.kernels.lowerings import lower_all
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.passes.fusion import MAX_ELEMENTS_TO_JOIN_UNRELATED, Fusion, fuse
from adjoint.compiler.passes.fusion_rules import MAX_ELEMENTS_AFTER_FULL_REDUCTION, MAX_KERNEL_EQUATIONS
from adjoint.compiler.passes.materialize import is_view_or_generated, materialize_views
from adjoint.compiler.passes.memory_plan import Span, plan_memory
from adjoint.compiler.passes.simplify import rewrite

pytest.importorskip("llvmlite")


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def temporaries(fusion: Fusion) -> int:
    """How many values lie in memory besides inputs and outputs."""
    return sum(v not in fusion.graph.outputs for g in fusion.order for v in g.stored)


def test_a_chain_of_three_is_one_kernel_without_temporaries() -> None:
    fusion = fused(lambda a, b: a + b + b, numbers(1000), numbers(1000))
    (group,) = fusion.order
    assert ops(group) == ["add", "add"]
    assert temporaries(fusion) == 0
    kernel = lower(group, fusion, host())
    assert [v.op and v.op.name for v in kernel.arguments] == [None, None, "add"]


def test_an_elementwise_chain_with_its_gradient_is_one_kernel() -> None:
    def both(x: Any, y: Any) -> Any:
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        out = ad.tanh(x * y) * ad.exp(x) + ad.sigmoid(y)
        gradients = ad.autograd.grad(out, (x, y), grad_outputs=ad.ones_like(out))
        return [out.detach(), *gradients]

    fusion = fused(both, numbers(100, 100), numbers(100, 100))
    (group,) = fusion.order
    assert len(group.stored) == 3
    assert temporaries(fusion) == 0


@pytest.mark.parametrize(("rows", "kernels"), [(64, 1), (512, 2)])
def test_what_follows_a_large_product_that_is_kept_has_its_own_kernel(rows: int, kernels: int) -> None:
    def step(x: Any, y: Any, w: Any) -> Any:
        gradient = x @ y
        return gradient, w - gradient * 0.1

    arrays = numbers(rows, 16), numbers(16, 512), numbers(rows, 512)
    fusion = fused(step, *arrays)
    assert len(fusion.order) == kernels
    assert len(fused(lambda x, y, w: w - x @ y * 0.1, *arrays).order) == 1  # not kept


def test_kernels_that_an_equation_brings_together_become_one() -> None:
    fusion = fused(lambda x, y: ad.exp(x) * 2 + ad.sin(y) * 3, numbers(100, 100), numbers(100, 100))
    (group,) = fusion.order
    assert sorted(ops(group)) == ["add", "exp", "mul", "mul", "sin"]
    assert group.reason == "it reads only inputs"


@pytest.mark.parametrize(
    ("function", "kernels"),
    [
        # over other shapes; with folds over other axes; one waiting for what the other's fold leads to
        (lambda x: ad.exp(x) + ad.sin(x[:1]), 2),
        (lambda x: ad.exp(x).mean(0).mean() * (ad.exp(x) + ad.sin(x)) + ad.sin(x).mean(1).mean(), 5),
        (lambda x: ad.sin(x * ad.exp(x).mean()) + ad.exp(x), 2),
    ],
)
def test_kernels_that_cannot_be_one_stay_apart(function: Any, kernels: int) -> None:
    x = numbers(300, 200)
    assert len(fused(function, x).order) == kernels
    t = ad.from_numpy(x)
    np.testing.assert_allclose(ad.compile(function)(t).numpy(), function(t).numpy(), rtol=2e-5, atol=1e-4)


def test_softmax_is_one_kernel_whose_folds_wait_for_each_other() -> None:
    fusion = fused(lambda x: ad.softmax(x, -1), numbers(64, 1000))
    (group,) = fusion.order
    assert [v.op.name for v in group.reductions] == ["max", "sum"]
    assert temporaries(fusion) == 0
    assert ReductionStages(IterationSpace(group, fusion)).count == 3


@pytest.mark.parametrize("shape", [(5, 7), (64, 1), (33, 16), (3, 100), (6, 1000), (2, 3, 40)])
@pytest.mark.parametrize("axis", [0, 1])
def test_folds_that_wait_for_each_other_in_rows_of_any_length(shape: tuple[int, ...], axis: int) -> None:
    def both(x: Any) -> Any:
        centred = x - x.mean(axis, keepdim=True)
        scaled = centred * ad.rsqrt((centred * centred).mean(axis, keepdim=True) + 1e-5)
        return ad.softmax(scaled, axis), scaled.amax(axis) * 2, scaled

    x = ad.from_numpy(numbers(*shape))
    for expected, got in zip(both(x), ad.compile(both)(x), strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=2e-5, atol=2e-6)
    (group,) = fused(both, numbers(*shape)).order
    assert group.axes == (axis,)


def test_what_waits_for_a_fold_over_all_of_many_elements_is_apart() -> None:
    assert len(fused(lambda x: x / x.sum(), numbers(MAX_ELEMENTS_AFTER_FULL_REDUCTION)).order) == 1
    assert len(fused(lambda x: x / x.sum(), numbers(MAX_ELEMENTS_AFTER_FULL_REDUCTION + 1)).order) == 2


def test_bias_and_relu_are_part_of_the_product_before() -> None:
    fusion = fused(lambda x, w, b: ad.relu(F.linear(x, w, b)), numbers(8, 5), numbers(6, 5), numbers(6))
    (product,) = fusion.order
    assert ops(product) == ["mm", "add", "relu"]
    assert product.root is product.equations[0]
    assert temporaries(fusion) == 0


def test_a_product_does_not_wait_for_itself() -> None:
    # what the product reads has its shape, and is made by a kernel that the product brings nowhere
    fusion = fused(lambda x: ad.exp(x) @ ad.sin(x) + ad.exp(x), numbers(20, 20))
    assert [g.root is not None for g in fusion.order] == [False, True]
    x = ad.from_numpy(numbers(20, 20))
    step = ad.compile(lambda x: ad.exp(x) @ ad.sin(x) + ad.exp(x))
    np.testing.assert_allclose(step(x).numpy(), (ad.exp(x) @ ad.sin(x) + ad.exp(x)).numpy(), rtol=1e-5, atol=1e-5)


def test_a_fold_takes_what_makes_its_operand_along() -> None:
    fusion = fused(lambda x, y: ((x - y) ** 2).sum(1), numbers(70, 90), numbers(90))
    (group,) = fusion.order
    assert ops(group) == ["sub", "square", "sum"]
    assert group.axes == (1,)
    assert temporaries(fusion) == 0


def test_folds_over_other_axes_are_kernels_of_their_own() -> None:
    fusion = fused(lambda x: ((x * 2).sum(0), (x * 2).amax(0), (x * 2).sum(1)), numbers(100, 90))
    assert [ops(g) for g in fusion.order] == [["mul", "sum", "max"], ["sum"]]
    assert [g.axes for g in fusion.order] == [(0,), (1,)]


@pytest.mark.parametrize(
    ("size", "kernels"), [(MAX_ELEMENTS_TO_JOIN_UNRELATED, 1), (MAX_ELEMENTS_TO_JOIN_UNRELATED + 1, 2)]
)
def test_small_unrelated_loops_over_one_shape_are_joined(size: int, kernels: int) -> None:
    fusion = fused(lambda x, y: (x * 2, y + 1), numbers(size), numbers(size))
    assert len(fusion.order) == kernels


def test_a_kernel_has_so_many_equations_at_most() -> None:
    def function(x: Any) -> Any:
        for _ in range(MAX_KERNEL_EQUATIONS + 2):
            x = ad.sin(x)
        return x

    first, second = fused(function, numbers(1000)).order
    assert [len(first.equations), len(second.equations)] == [MAX_KERNEL_EQUATIONS, 2]
    assert second.reason == f"its operand's kernel has {MAX_KERNEL_EQUATIONS} equations already"


def test_small_loops_are_not_joined_beyond_the_most_equations_of_a_kernel() -> None:
    fusion = fused(
        lambda x, y: [*(x * i for i in range(2, MAX_KERNEL_EQUATIONS)), *(y - i for i in range(9))],
        numbers(4),
        numbers(4),
    )
    assert [len(g.equations) for g in fusion.order] == [MAX_KERNEL_EQUATIONS, 7]


def test_kernels_are_not_made_one_beyond_the_most_equations() -> None:
    def function(x: Any, y: Any) -> Any:
        for _ in range(MAX_KERNEL_EQUATIONS // 2):
            x, y = ad.sin(x), ad.sin(y)
        return x + y

    fusion = fused(function, numbers(100, 100), numbers(100, 100))
    assert [len(g.equations) for g in fusion.order] == [MAX_KERNEL_EQUATIONS // 2, MAX_KERNEL_EQUATIONS // 2 + 1]


def test_small_loops_are_not_joined_across_what_lies_between_them() -> None:
    fusion = fused(lambda x, w: ((x * 2) @ w) + 1, numbers(4, 4), numbers(4, 4))
    assert [ops(g) for g in fusion.order] == [["mul"], ["mm", "add"]]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x * 2, "it reads only inputs"),
        (lambda x: ad.special.bessel_j1(x), "bessel_j1 is computed by NumPy"),
        (lambda x: ad.special.bessel_j1(x) * 2, "its operand is made by a call (bessel_j1)"),
        (lambda x: ad.relu(x) + ad.relu(x).flip(0), "add reads other elements of relu than the one being computed"),
        (lambda x: (x @ x.T) * 2, "mm has a kernel of its own kind"),
        (lambda x: (x @ x.T).sum(0), "sum folds what mm makes block by block"),
        (lambda x: x + x.sum(0).flip(0), "add reads other results of sum than the one being computed"),
        (lambda x: x.sum(0).sum(0), "sum runs over [80], its operand's kernel over [90, 80]"),
        (lambda x: ad.exp(x[:1]) * x, "mul runs over [90, 80], its operand's kernel over [1, 80]"),
        (lambda x: ad.exp(x).sum(0) + ad.exp(x).sum(1)[:1], "sum folds axes (1,), its operand's kernel (0,)"),
    ],
)
def test_every_boundary_has_a_reason(function: Any, reason: str) -> None:
    fusion = fused(function, numbers(90, 80))
    assert reason in [g.reason for g in fusion.order]
    assert all(g.reason for g in fusion.order)


def test_a_step_that_would_wait_for_itself_begins_anew() -> None:
    # y = exp x; z = (y summed) feeds a call, whose result meets y again: not in y's kernel, which comes before the call
    fusion = fused(lambda x: ad.exp(x) + ad.special.bessel_j1(ad.exp(x)), numbers(90, 80))
    assert [ops(g) for g in fusion.order] == [["exp"], ["bessel_j1"], ["add"]]
    assert "add also needs what comes after its operand's kernel" in [g.reason for g in fusion.order]


def test_a_check_runs_before_all_that_it_does_not_wait_for() -> None:
    def picked(x: Any, i: Any) -> Any:
        return ad.exp(x).cumsum(0), ad.index_select(x, 0, i)

    fusion = fused(picked, numbers(90, 80), np.array([1, 2]))
    (check,) = (i for i, g in enumerate(fusion.order) if g.equations[0].op.family == "check")
    needed, stack = set(), [fusion.order[check]]
    while stack:
        stack.extend(stack.pop().needs - needed)
        needed.update(stack)
    assert set(fusion.order[:check]) == needed


def test_no_random_draw_overtakes_another() -> None:
    def function(x: Any) -> Any:
        p = ad.sigmoid(x)
        kept = ad.bernoulli(p)
        noise = ad.rand(90, 80)
        return kept, noise, p * noise  # which would wait for the noise in the kernel that the first draw waits for

    x = numbers(90, 80)
    fusion = fused(function, x)
    draws = [g.equations[0] for g in fusion.order if g.equations[0].op.effect]
    assert [v.op.name for v in draws] == ["bernoulli", "uniform"]
    ad.manual_seed(1)
    expected = function(ad.from_numpy(x))
    ad.manual_seed(1)
    got = ad.compile(function)(ad.from_numpy(x))
    np.testing.assert_array_equal(got[0].numpy(), expected[0].numpy())
    np.testing.assert_array_equal(got[1].numpy(), expected[1].numpy())


def test_operands_follow_the_shape_they_were_broadcast_to() -> None:
    # (2, 1) broadcasts with (2, 2, 4) and with (4, 2, 2), the kernel's shape, but to other elements
    def function(a: Any, b: Any) -> Any:
        return ad.relu(a).reshape(2, 2, 4) * b

    a, b = np.arange(16.0).reshape(4, 2, 2), np.array([[10.0], [20.0]])
    x, y = ad.from_numpy(a), ad.from_numpy(b)
    np.testing.assert_array_equal(ad.compile(function)(x, y).numpy(), function(x, y).numpy())
    assert len(fused(function, a, b).order) == 1
    assert len(fused(function, a, np.array(3.0)).order) == 1


def test_what_an_equation_reads_over_the_space_of_its_kernel() -> None:
    (x,) = graph_of(lambda x: x * 1.5, numbers(3, 4)).inputs
    whole = StridedView.whole(x)
    assert view_over(whole, (3, 4), (3, 4)) == whole
    assert view_over(whole, (2, 3, 4), (2, 3, 4)) == whole.expand((2, 3, 4))
    assert view_over(whole, (3, 4), (12,)) == whole.reshape((12,))
    assert view_over(whole, (2, 3, 4), (2, 12)) == whole.expand((2, 3, 4)).reshape((2, 12))
    assert view_over(whole.permute((1, 0)), (4, 3), (12,)) is None
    assert view_over(whole, (2, 3, 4), (24,)) is None


@settings(max_examples=150)
@given(programs(exact=True, most=16))
def test_groups_are_complete_ordered_and_store_what_others_read(program: Program) -> None:
    graph = materialize_views(rewrite(graph_of(program.run, *program.arguments)))
    fusion = fuse(graph)
    placed = [v for g in fusion.order for v in g.equations]
    assert sorted(map(id, placed)) == sorted(id(v) for v in graph.equations if not is_view_or_generated(v))
    done: set[Any] = set()
    needed: dict[Any, set[Any]] = {}
    for group in fusion.order:
        assert group.needs <= done
        needed[group] = group.needs.union(*(needed[g] for g in group.needs))
        assert {g for g in fusion.order if group.is_downstream_of(g)} == needed[group]
        for value in group.equations:
            for operand in value.operands:
                base = fusion.views[operand].base
                maker = fusion.maker.get(base)
                assert maker is None or maker is group or base in maker.stored
        done.add(group)
    assert all(v in fusion.maker[v].stored for v in graph.outputs)
    assert all(g.reason for g in fusion.order)


@settings(max_examples=100)
@given(programs(exact=True, most=16))
def test_equal_kernels_have_equal_names_and_the_plan_is_sound(program: Program) -> None:
    graph = materialize_views(rewrite(graph_of(program.run, *program.arguments)))
    fusion = fuse(graph)
    kernels = [lower(g, fusion, host()) for g in fusion.order if not g.call]
    again = fuse(materialize_views(rewrite(graph_of(program.run, *program.arguments))))
    assert [k.text for k in kernels] == [k.text for k in lower_all(again, host()).values()]
    assert all(k.name in k.text for k in kernels)
    spans = [Span(v, i, len(fusion.order)) for i, g in enumerate(fusion.order) for v in g.stored]
    made = plan_memory(spans)
    assert made.size == made.unshared
