"""The memory plan: nothing overlaps while it is needed, everything is aligned, and memory is used again."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjoint as ad
from adjoint.compiler.ir.graph import Graph
from adjoint.compiler.passes import memory_plan
from adjoint.compiler.passes.memory_plan import ALIGNMENT, MemoryPlan, Span, aligned_array, aligned_bytes, plan_memory
from adjoint.core.op.spec import Spec

DTYPES = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.bool_))


def span(count: int, first: int, last: int, dtype: Any = np.float32) -> Span:
    return Span(Graph("test").input(Spec((count,), np.dtype(dtype)), None), first, last)


@st.composite
def spans(draw: Any) -> Span:
    first = draw(st.integers(0, 12))
    return span(draw(st.integers(0, 300)), first, first + draw(st.integers(0, 6)), draw(st.sampled_from(DTYPES)))


@given(st.lists(spans(), max_size=24))
def test_values_needed_at_once_do_not_overlap(needed: list[Span]) -> None:
    check_places(needed)


def check_places(needed: list[Span]) -> None:
    """Check that a plan's values have memory of their own, aligned, while they are needed."""
    made = plan_memory(needed)
    assert made.offsets.keys() == {s.value for s in needed}
    ends = {s.value: made.offsets[s.value] + max(s.value.nbytes, 1) for s in needed}
    for a, b in combinations(needed, 2):
        if a.first <= b.last and b.first <= a.last:
            low, high = sorted((a.value, b.value), key=made.offsets.__getitem__)
            assert ends[low] <= made.offsets[high]
    assert all(offset % ALIGNMENT == 0 for offset in made.offsets.values())
    assert max(ends.values(), default=0) <= made.size <= made.unshared


@given(st.lists(spans(), max_size=24))
def test_many_values_needed_at_once_do_not_overlap(needed: list[Span]) -> None:
    with pytest.MonkeyPatch.context() as patch:  # each size in places of its own, as for a long program
        patch.setattr(memory_plan, "MIN_SPANS_BY_SIZE", 1)
        patch.setattr(memory_plan, "MAX_SIZE_BY_SIZE", 100)
        check_places(needed)


@given(st.lists(spans(), min_size=1, max_size=24))
def test_the_arena_is_no_smaller_than_what_is_needed_at_one_time(needed: list[Span]) -> None:
    at_once = max(sum(s.value.nbytes for s in needed if s.first <= t <= s.last) for t in range(20))
    assert plan_memory(needed).size >= at_once


def test_sizes_apart_are_given_up_where_they_take_more() -> None:
    turns = [span(16 << i % 7, i, i) for i in range(memory_plan.MIN_SPANS_BY_SIZE)]
    assert plan_memory(turns).size == 16 * 4 << 6
    assert plan_memory([span(16, i, i + 1) for i in range(memory_plan.MIN_SPANS_BY_SIZE)]).size == 2 * 64


def test_a_chain_needs_two_places_however_long() -> None:
    made = plan_memory([span(100, i, i + 1) for i in range(50)])
    assert made.size == 2 * 448  # 400 bytes each, up to a multiple of 64
    assert made.unshared == 50 * 448
    assert str(made) == "arena of 896 bytes for 50 values, 22400 without reuse"


def test_a_small_value_goes_where_a_large_one_was() -> None:
    large, small = span(1000, 0, 1), span(10, 2, 3)
    made = plan_memory([large, small])
    assert made.offsets == {large.value: 0, small.value: 0}


def test_a_value_goes_into_the_first_gap_that_holds_it() -> None:
    first, gone, last = span(128, 0, 9), span(64, 0, 2), span(32, 0, 9)
    late = span(64, 3, 4)
    made = plan_memory([first, gone, last, late])
    assert made.offsets[late.value] == made.offsets[gone.value]


def test_nothing_needs_nothing() -> None:
    assert plan_memory([]) == MemoryPlan({}, 0, 0, {}, {})


@st.composite
def large_spans(draw: Any) -> Span:
    first = draw(st.integers(0, 12))
    return span(draw(st.integers(1, 40)) * 8192, first, first + draw(st.integers(0, 6)))


@given(st.lists(large_spans(), max_size=24), st.lists(large_spans(), max_size=6), st.integers(0, 8))
def test_what_is_lent_is_free_for_as_long(needed: list[Span], late: list[Span], since: int) -> None:
    late = [s._replace(last=99) for s in late]
    made, alone = plan_memory(needed, late, since), plan_memory(needed)
    assert made.offsets.keys() | made.lent.keys() == {s.value for s in needed}
    assert not made.offsets.keys() & made.lent.keys()
    assert made.lent_offsets.keys() == ({s.value for s in late} if made.lent else set())
    assert made.size <= alone.unshared
    block = [s for s in (*needed, *late) if s.value in made.lent or s.value in made.lent_offsets]
    for a, b in combinations(block, 2):
        if a.first <= b.last and b.first <= a.last:
            places = made.lent_offsets | made.lent
            low, high = sorted((a.value, b.value), key=places.__getitem__)
            assert places[low] + low.nbytes <= places[high]
    for s in needed:
        if s.value in made.lent:
            assert s.first >= since, "until then, what lies there is still wanted"
            assert made.lent[s.value] + s.value.nbytes <= sum(-(-s.value.nbytes // 64) * 64 for s in late)


def test_late_memory_is_lent_until_it_is_filled() -> None:
    early, gradient = span(1 << 18, 0, 4), span(1 << 18, 5, 9)
    made = plan_memory([early], [gradient])
    assert made == MemoryPlan({}, 0, 0, {gradient.value: 0}, {early.value: 0})
    assert str(made).endswith("; 1 value of 1048576 bytes where gradients will lie")
    assert not plan_memory([early._replace(last=5)], [gradient]).lent, "the kernel that fills it reads what lay there"
    assert not plan_memory([early], [gradient], since=1).lent


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
def test_memory_is_aligned_zero_and_of_the_size_asked_for(size: int) -> None:
    memory = aligned_bytes(size)
    assert size == 0 or memory.ctypes.data % ALIGNMENT == 0
    assert memory.nbytes == size
    assert not memory.any()


def test_arrays_have_the_values_shape_and_type() -> None:
    for shape in ((), (0, 3), (2, 3)):
        array = aligned_array(Graph("test").input(Spec(shape, np.dtype(np.float64)), None))
        assert array.shape == shape
        assert array.dtype == np.float64
        assert array.flags.c_contiguous
        assert array.flags.writeable


def test_a_program_reuses_the_arena() -> None:
    def long(x: Any) -> Any:
        for _ in range(8):
            x = x.cumsum(0) * 0.5
        return x

    x = ad.ones(1000)
    compiled = ad.compile(long)
    np.testing.assert_allclose(compiled(x).numpy(), long(x).numpy(), rtol=1e-5)
    made = compiled._program().binding.plan
    assert len(made.offsets) == 15
    assert made.size == 2 * 4032
