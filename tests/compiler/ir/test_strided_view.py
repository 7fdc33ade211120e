"""Views against NumPy's strided arrays: the same elements, and no reshape refused that NumPy makes without a copy."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from adjoint.compiler.ir.graph import Argument, Graph, Value
from adjoint.compiler.ir.strided_view import StridedView, row_major, strided_view_of
from adjoint.core.op.spec import Spec
from adjoint.ops.elementwise.arithmetic import neg
from adjoint.ops.movement import movement

SIZES = st.sampled_from([0, 1, 1, 2, 3, 4, 6])
SHAPES = st.lists(SIZES, max_size=4).map(tuple)
MOVES = ("permute", "expand", "flip", "slice", "select", "reshape")


def base_of(shape: tuple[int, ...]) -> tuple[Value, Any]:
    """An input of a graph, and an array of its shape whose elements are their own positions."""
    value = Graph("test").input(Spec(shape, np.dtype(np.int64)), Argument(0, "x"))
    return value, np.arange(math.prod(shape)).reshape(shape)


def elements(view: StridedView, flat: Any) -> Any:
    """What the view describes, one element at a time, from its definition."""
    out = np.empty(view.shape, flat.dtype)
    for at in np.ndindex(*view.shape):
        out[at] = flat[view.offset + sum(i * s for i, s in zip(at, view.strides, strict=True))]
    return out


@st.composite
def moves(draw: Any, shape: tuple[int, ...]) -> tuple[str, Any]:
    """A movement that an array of this shape allows: the name of `View`'s method, its argument."""
    name = draw(st.sampled_from(MOVES))
    n = len(shape)
    if name == "permute":
        return name, tuple(draw(st.permutations(range(n))))
    if name == "expand":
        lead = draw(st.lists(st.sampled_from([0, 1, 2, 3]), max_size=max(0, 4 - n)))
        return name, (*lead, *(draw(st.sampled_from([1, 2, 5])) if size == 1 else size for size in shape))
    if name == "flip":
        return name, tuple(sorted(draw(st.sets(st.integers(0, n - 1))))) if n else ()
    if name == "slice":
        bounds = []
        for size in shape:
            start, stop = sorted((draw(st.integers(0, size)), draw(st.integers(0, size))))
            bounds.append((start, stop, draw(st.sampled_from([1, 1, 2, 3]))))
        return name, tuple(bounds)
    if name == "select":
        axes = [i for i, size in enumerate(shape) if size]
        if not axes:
            return "permute", tuple(range(n))
        axis = draw(st.sampled_from(axes))
        return name, (axis, draw(st.integers(0, shape[axis] - 1)))
    return name, draw(reshapings(shape))


@st.composite
def reshapings(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of as many elements."""
    count = math.prod(shape)
    if count == 0:
        return tuple(draw(st.permutations([0, *draw(st.lists(SIZES, max_size=2))])))
    parts = []
    while count > 1 and len(parts) < 3:
        parts.append(draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0])))
        count //= parts[-1]
    parts.append(count)
    return tuple(draw(st.permutations([*parts, *[1] * draw(st.integers(0, 1))])))


def moved(array: Any, name: str, argument: Any) -> Any:
    """NumPy's view, in the memory of `array`; None where a reshape needs a copy."""
    if name == "permute":
        return array.transpose(argument)
    if name == "expand":
        return np.broadcast_to(array, argument)
    if name == "flip":
        return array[(*(slice(None, None, -1 if i in argument else 1) for i in range(array.ndim)), ...)]
    if name == "slice":
        return array[(*(slice(*b) for b in argument), ...)]
    if name == "select":
        return array[(slice(None),) * argument[0] + (argument[1], ...)]
    result = np.reshape(array, argument)
    return result if not array.size or np.may_share_memory(result, array) else None


def applied(view: StridedView, name: str, argument: Any) -> StridedView | None:
    method = getattr(view, name)
    result: StridedView | None = method(*argument) if name == "select" else method(argument)
    return result


@given(st.data())
def test_any_chain_of_movements_reads_what_numpy_reads(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    base, array = base_of(shape)
    view, flat = StridedView.whole(base), array.reshape(-1)
    for _ in range(data.draw(st.integers(1, 5))):
        name, argument = data.draw(moves(view.shape))
        expected = moved(array, name, argument)
        following = applied(view, name, argument)
        if expected is None:
            assert following is None, "strides cannot say this reshape"
            return
        assert following is not None, "NumPy says this reshape by strides"
        view, array = following, expected
        assert view.base is base
        assert view.shape == array.shape
        np.testing.assert_array_equal(elements(view, flat), array)
        if array.size:
            assert view.is_linear == (array.size == flat.size and bool((array.reshape(-1) == flat).all()))


@given(SHAPES, st.data())
def test_every_reshape_of_a_whole_array_is_a_view(shape: tuple[int, ...], data: st.DataObject) -> None:
    base, _ = base_of(shape)
    target = data.draw(reshapings(shape))
    view = StridedView.whole(base).reshape(target)
    assert view.shape == target
    assert view.is_linear
    back = view.reshape(shape)
    assert back.shape == shape
    assert back.is_linear


@given(SHAPES)
def test_row_major_strides_are_numpys(shape: tuple[int, ...]) -> None:
    strides = row_major(shape)
    if 0 not in shape:
        assert tuple(8 * s for s in strides) == np.empty(shape, np.int64).strides
    assert all(outer == inner * n for (outer, inner), n in zip(pairwise(strides), shape[1:], strict=True))


def test_a_scalar_is_one_element_under_any_number_of_ones() -> None:
    base, _ = base_of(())
    view = StridedView.whole(base)
    assert view == StridedView(base, (), (), 0)
    assert view.is_linear
    for shape in ((1,), (1, 1, 1)):
        wider = view.reshape(shape)
        assert wider.is_linear
        assert wider.reshape(()) == StridedView(base, (), (), 0)
    assert view.expand((2, 3)).strides == (0, 0)
    assert not view.expand((2, 3)).is_linear


def test_nothing_is_read_where_there_are_no_elements() -> None:
    base, _ = base_of((2, 0, 3))
    view = StridedView.whole(base).reshape((3, 0))
    assert view.shape == (3, 0)
    assert view.reshape((0, 5, 7)) is not None
    assert view.flip((0, 1)).shape == (3, 0)
    # a loop over no elements holds every load in it: the last size 0 has a stride
    assert view.strides[1]


@pytest.mark.parametrize(
    ("shape", "build", "target"),
    [
        ((4, 6), lambda v: v.permute((1, 0)), (24,)),
        ((4, 6), lambda v: v.slice(((0, 4, 1), (0, 3, 1))), (12,)),
        ((2, 3), lambda v: v.reshape((1, 2, 3)).expand((5, 2, 3)), (30,)),
    ],
    ids=["turned", "cut", "repeated"],
)
def test_a_reshape_across_a_jump_needs_a_copy(shape: Any, build: Any, target: Any) -> None:
    base, _ = base_of(shape)
    assert build(StridedView.whole(base)).reshape(target) is None


def test_a_reshape_within_the_runs_of_a_turned_array_is_a_view() -> None:
    base, array = base_of((4, 6))
    view = StridedView.whole(base).permute((1, 0)).reshape((2, 3, 2, 2))
    assert view is not None
    np.testing.assert_array_equal(elements(view, array.reshape(-1)), array.T.reshape(2, 3, 2, 2))


def test_view_of_follows_equations_to_the_value_in_memory() -> None:
    base, array = base_of((2, 3))
    graph = Graph("test")

    def equation(function: Any, source: Value, **params: Any) -> Value:
        return graph.add(function.op, (source,), params, function.op.spec(source, **params), None)

    turned = equation(movement.permute, base, axes=(1, 0))
    back = equation(movement.flip, turned, axes=(0,))
    views: dict[Value, StridedView] = {}
    view = strided_view_of(back, views)
    assert view.base is base
    np.testing.assert_array_equal(elements(view, array.reshape(-1)), array.T[::-1])
    assert strided_view_of(equation(movement.reshape, back, shape=(6,)), views) is None
    computed = equation(neg, back)
    assert strided_view_of(computed, views) == StridedView.whole(computed)
    assert views[back] is view


def test_elements_match_as_strided_as_the_runtime_uses_it() -> None:
    base, array = base_of((3, 4))
    view = StridedView.whole(base).flip((1,)).permute((1, 0))
    flat = array.reshape(-1)
    strided = as_strided(flat[view.offset :], view.shape, tuple(8 * s for s in view.strides))
    np.testing.assert_array_equal(strided, elements(view, flat))
