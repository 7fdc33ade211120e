"""Plans as bytes: what is read again is what was written, to the last group, view and kernel."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("llvmlite")

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler import build
from adjoint.compiler.cache import plan_codec
from adjoint.compiler.ir.graph import Graph, Value
from adjoint.compiler.kernels.plan import CachedPlan
from adjoint.compiler.passes.fusion_group import Group
from adjoint.core.op.families import unary


def plan_of(function: Any, *arguments: Any) -> tuple[Graph, CachedPlan]:
    """The traced graph of a function, and its plan."""
    found: list[tuple[Graph, CachedPlan]] = []
    load = build.load_or_make_plan

    def note(graph: Graph, *others: Any) -> Any:
        plan, keep = load(graph, *others)
        found.append((graph, plan))
        return plan, keep

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "load_or_make_plan", note)
        patch.setattr("adjoint.compiler.cache.plan_cache.default_disk_cache", lambda: None)
        ad.compile(function)(*arguments)
    return found[-1]


def describe(plan: CachedPlan) -> tuple[Any, ...]:
    """All that a plan holds, with numbers for its values and groups."""
    fusion, numbers = plan.fusion, plan.graph.names()
    groups = {g: i for i, g in enumerate(fusion.order)}

    def tell(x: Any) -> Any:
        if isinstance(x, (Value, Group)):
            return numbers[x] if isinstance(x, Value) else groups[x]
        if isinstance(x, (list, tuple)):
            return [tell(y) for y in x]
        return sorted(map(tell, x)) if isinstance(x, set) else x

    return (
        str(plan.graph),
        [[(tell(k), tell(x)) for k, x in fusion.views.items() if k in numbers]],
        {tell(k): tell(x) for k, x in fusion.maker.items()},
        [[tell(getattr(g, name)) for name in Group.__slots__ if name not in Group.TRANSIENT_SLOTS] for g in groups],
        [[g.is_downstream_of(other) for other in groups] for g in groups],
        {tell(k): tell(x) for k, x in fusion.placed_in_concat.items()},
        [tell(g) for g in fusion.elided_concats],
        [(tell(g), k.name, k.text, k.tiles, k.scratch, tell(k.numbers)) for g, k in plan.kernels.items()],
        [tell(k.arguments) for k in plan.kernels.values()],
        (fusion.precision, plan.rounds),
    )


def normalize_and_join(x: Any, y: Any) -> Any:
    rows = [F.layer_norm(x[i] * y, (8,)).softmax(-1) for i in range(3)]
    return ad.cat(rows, 0) @ y.t(), ad.where(x > 0, x, y).sum(0).flip(1)


def attend_and_index(x: Any, y: Any) -> Any:
    return F.scaled_dot_product_attention(x, x * 2.0, x, is_causal=True), y[ad.tensor([1, 0])].clamp(0.5).cumsum(0)


def run_loop(x: Any, y: Any) -> Any:
    for t in range(3):
        x = x + 0.5 * (x[t] @ y.t()).tanh() @ y
    return x.mean()


@pytest.mark.parametrize("function", [normalize_and_join, attend_and_index, run_loop])
def test_a_plan_that_is_read_is_the_plan_that_was_written(function: Any) -> None:
    traced, plan = plan_of(function, ad.randn(3, 5, 8), ad.randn(5, 8))
    data = plan_codec.dump_plan(plan, traced)
    assert data is not None
    assert describe(plan_codec.load_plan(data, traced)) == describe(plan)


def test_a_plan_of_a_users_op_or_of_a_generator_is_not_written() -> None:
    @unary(scalar="neg")
    def opposite(x: Any) -> Any:
        """-x."""
        return -x

    for function in (lambda x: opposite(x) * 2.0, lambda x: F.dropout(x, 0.5) + 1.0):
        traced, plan = plan_of(function, ad.ones(3))
        assert plan_codec.dump_plan(plan, traced) is None
