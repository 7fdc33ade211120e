"""Kernels that read and write at positions which are data: NumPy's elements, and nothing outside the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.kernels.single import Guarded, Native, equation, same_bits, write_storing

import adjoint as ad
from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.kernels.gather_scatter.gather import GatherPlan, find_runs, plan_gather
from adjoint.compiler.kernels.gather_scatter.scatter import ScatterPlan, plan_scatter, write_scatter
from adjoint.compiler.llvm.jit.target import Target, host
from adjoint.core.op.spec import Spec
from adjoint.ops.indexing.indexing import gather, index, index_add, scatter_add
from adjoint.ops.indexing.scatter import scatter, scatter_reduce
from adjoint.ops.movement.movement import cat, pad, unslice
from adjoint.ops.mutation.view_update import put_index, put_slice

DTYPES = [np.float32, np.float64, np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_]
SOME = [np.float32, np.int64, np.uint8, np.bool_]
NARROW = Target(host().triple, "", "")  # 128 bits


def numbers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    made = np.random.default_rng(seed).integers(-50, 50, shape)
    return np.asarray(made % 2 == 0 if dtype == np.bool_ else made).astype(dtype)


def positions(shape: tuple[int, ...], size: int, dtype: Any = np.int64, seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(-size, size, shape).astype(dtype)


def written(plan: GatherPlan | ScatterPlan, value: Value, arrays: list[Any], target: Target) -> Any:
    """What the kernel makes, in whatever order its tiles run."""
    text = write_storing(plan, target) if isinstance(plan, GatherPlan) else write_scatter(plan, target)
    by_value = dict(zip(value.operands, arrays, strict=True))
    inputs = []
    for base in plan.arguments:
        guarded = Guarded(base.shape, base.dtype, by_value[base])
        inputs.append(guarded)
    out, other = Guarded(value.shape, value.dtype), Guarded(value.shape, value.dtype)
    native = Native(text)
    native([*(g.array for g in inputs), out.array], range(plan.tiles))
    if plan.tiles > 1:
        native([*(g.array for g in inputs), other.array], range(plan.tiles)[::-1])
        same_bits(other.check(), out.array)
    for guarded, base in zip(inputs, plan.arguments, strict=True):
        same_bits(guarded.check(), np.ascontiguousarray(by_value[base]).reshape(base.shape))
    return out.check()


def check(op: Any, *inputs: Any, target: Target | None = None, **params: Any) -> GatherPlan | ScatterPlan:
    value, expected, arrays = equation(op, *inputs, **params)
    target = target or host()
    plan = plan_gather(value, target) or plan_scatter(value, target)
    assert plan is not None
    same_bits(written(plan, value, arrays, target), np.ascontiguousarray(expected).reshape(expected.shape))
    return plan


INDEXED: list[tuple[Any, ...]] = [
    ((65, 128), (0,), [(7,)]), ((65, 33), (0,), [(3, 5)]), ((9,), (0,), [(70,)]), ((9,), (0,), [()]),
    ((9, 5), (0,), [()]), ((5, 6, 7), (1,), [(4,)]), ((5, 6, 7), (None, 0), [(4,)]),
    ((5, 6, 7), (None, None, 0), [(19,)]), ((5, 6, 7), (None, 0, None), [(4, 3)]),
    ((5, 6, 7), (0, 1), [(4, 1), (3,)]), ((5, 6, 7), (0, None, 1), [(4,), (4,)]),
    ((5, 6, 7), (0, None, 1), [(), (4,)]), ((5, 6, 7), (0, 1, 2), [(4, 1, 1), (3, 1), (9,)]),
    ((5, 6, 7), (1, 0, None), [(4, 1), (3,)]), ((4, 1, 1), (0, None), [(3,)]), ((5, 0, 7), (0,), [(4,)]),
    ((5, 6), (0,), [(0,)]), ((0, 6), (0,), [(0,)]), ((3, 200), (None, 0), [(301,)]),
]  # fmt: skip


@pytest.mark.sweep(4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "pattern", "shapes"), [c for c in INDEXED if c[1][0] != 1 or len(c[1]) > 1])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_index_reads_what_numpy_reads(shape: Any, pattern: Any, shapes: Any, dtype: Any, kind: Any) -> None:
    if kind != np.int64 and dtype not in (np.float32, np.bool_):
        return  # each type once with each kind of index will do
    slots = [d for d, slot in enumerate(pattern) if slot is not None]
    sizes = {pattern[d]: shape[d] for d in slots}
    low = 0 if kind == np.uint8 else -99
    at = [np.asarray(np.maximum(positions(s, sizes[i], np.int64, i), low), kind) for i, s in enumerate(shapes)]
    x = numbers(shape, dtype)
    check(index, x, *at, pattern=pattern)
    g = numbers(index.op.evaluate(x, *at, pattern=pattern).shape, dtype, 3)
    check(index_add, g, *at, shape=shape, pattern=pattern)
    check(put_index, x, g, *at, pattern=pattern)


@pytest.mark.parametrize(("rows", "size", "count"), [(65, 32, 768), (300, 1031, 900), (50000, 3, 100), (5, 4096, 40)])
def test_rows_are_added_in_the_order_of_the_source(rows: int, size: int, count: int) -> None:
    rng = np.random.default_rng(rows)
    g = rng.standard_normal((count, size)).astype(np.float32)
    at = positions((count,), rows)
    expected = np.zeros((rows, size), np.float32)
    for i, row in enumerate(at):
        expected[row] += g[i]
    value, theirs, arrays = equation(index_add, g, at, shape=(rows, size), pattern=(0,))
    plan = plan_scatter(value, host())
    assert (plan.tiles > 1) == (size > 1000)
    same_bits(written(plan, value, arrays, host()), expected)
    np.testing.assert_allclose(expected, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", [host(), NARROW], ids=["host", "narrow"])
@pytest.mark.parametrize(
    ("shape", "at", "pattern"),
    [
        ((65, 128), (40, 64), (0,)),
        ((300, 700), (900,), (None, 0)),
        ((7, 100_003), (3,), (0,)),
        ((1_000_003,), (500_001,), (0,)),
        ((64, 50, 70), (31,), (None, 0, None)),
        ((2, 50, 90_000), (3,), (None, 0)),
    ],
)
def test_large_ones_in_tiles(shape: Any, at: Any, pattern: Any, target: Target) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    d = next(d for d, slot in enumerate(pattern) if slot is not None)
    plan = check(index, x, positions(at, shape[d]), pattern=pattern, target=target)
    assert plan.tiles > 1
    g = index.op.evaluate(x, positions(at, shape[d]), pattern=pattern)
    whole = np.round(g * 8) + 0.0  # no -0.0, which NumPy keeps where it is alone
    plan = check(index_add, whole, positions(at, shape[d]), shape=shape, pattern=pattern, target=target)
    assert plan.tiles > 1 or len(shape) == 1
    check(put_index, x, g, positions(at, shape[d]), pattern=pattern, target=target)


GATHERED: list[tuple[Any, ...]] = [
    ((7, 5), (7, 1), 1), ((7, 5), (7, 40), 1), ((7, 5), (3, 2), 0), ((7, 5, 6), (7, 2, 6), 1),
    ((7, 5, 6), (9, 5, 4), 0), ((7, 5, 6), (2, 3, 33), 2), ((40,), (17,), 0), ((40,), (0,), 0), ((0, 3), (0, 3), 1),
    ((600, 300), (600, 300), 1), ((600, 300), (500, 200), 0), ((900, 300), (1, 300), 0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", SOME)
@pytest.mark.parametrize(("shape", "at", "axis"), GATHERED)
def test_gather_and_what_writes_along_one_dimension(shape: Any, at: Any, axis: int, dtype: Any) -> None:
    x, i = numbers(shape, dtype), positions(at, shape[axis], np.int32)
    check(gather, x, i, axis=axis)
    g = numbers(at, dtype, 5)
    check(scatter, x, g, i, axis=axis)
    check(scatter, x, 0.0, i, axis=axis)
    check(scatter_add, g, i, shape=shape, axis=axis)
    larger = numbers(tuple(n + 2 for n in at), dtype, 6)
    check(scatter_add, larger, i, shape=shape, axis=axis)
    if dtype != np.bool_:
        for reduce in ("prod", "amax", "amin"):
            for include_self in (False, True):
                check(scatter_reduce, x, g, i, axis=axis, reduce=reduce, include_self=include_self)


def test_sums_of_one_element_are_in_order_too() -> None:
    rng = np.random.default_rng(0)
    g, at = rng.standard_normal((500, 3)).astype(np.float32), positions((500, 3), 4)
    check(scatter_add, g, at, shape=(4, 3), axis=0)  # np.add.at goes element by element


def test_special_values_come_through() -> None:
    with np.errstate(all="ignore"):
        x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3.4e38], np.float32)
    x.view(np.uint32)[0] = 0x7FC12345
    check(index, x, positions((100,), 8), pattern=(0,))
    check(gather, x, positions((100,), 8), axis=0)
    check(put_index, np.zeros(8, np.float32), x, positions((8,), 8), pattern=(0,))
    check(cat, x, x[3:], axis=0)


@pytest.mark.parametrize("dtype", SOME)
@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        ([(3,), (5,), (40,)], 0),
        ([(3, 4), (3, 1), (3, 130)], 1),
        ([(3, 4), (0, 4), (1, 4)], 0),
        ([(3, 4, 5), (3, 2, 5)], 1),
        ([(2, 3), (2, 0)], 1),
        ([(600, 300), (600, 301), (600, 1)], 1),
        ([(600, 300), (1, 300)], 0),
        ([(5,)] * 30, 0),
        ([(3, 4)] * 12, 1),
        ([(9, 2, 4)] * 9, 1),
        ([(6000, 30)] * 10, 1),
        ([(2, 3)] * 10 + [(2, 5), (2, 0)] + [(2, 3)] * 11 + [(2, 1)], 1),
        ([(600, 30)] * 10, 0),
        ([(0, 3)] * 12, 0),
    ],
)
def test_cat_joins(shapes: Any, axis: int, dtype: Any) -> None:
    check(cat, *(numbers(s, dtype, i) for i, s in enumerate(shapes)), axis=axis)


def test_many_equal_parts_are_joined_by_a_loop() -> None:
    def text_of(count: int, *shapes: tuple[int, ...]) -> str:
        parts = [numbers(s, np.float32, i) for i, s in enumerate([(8, 1, 4)] * count + [*shapes])]
        plan = check(cat, *parts, axis=1)
        assert isinstance(plan, GatherPlan)
        assert [len(run) for run in find_runs(plan)] == [count, *[1] * len(shapes)]
        return write_storing(plan, host()).replace("load ptr", "")

    few, many = text_of(20), text_of(90)
    assert many.count("store") == few.count("store")
    assert text_of(20, (8, 2, 4), (8, 1, 4)).count("store") > few.count("store")


def test_parts_of_one_array_and_an_array_given_twice_are_in_no_run() -> None:
    xs = [ad.randn(4, 3) for _ in range(24)]
    joined = {
        "twice": lambda *xs: ad.stack([*xs[:10], *xs[:10]], 1) * 1.0,
        "rows": lambda x, *xs: ad.cat(x.split(1)[::-1] * 5),
        "between": lambda *xs: ad.stack([*xs[:11], xs[0], *xs[11:]], 1).sum(0),
        "turned": lambda *xs: ad.cat([x.t() for x in xs]),
        "with what follows": lambda *xs: ad.cat(xs, 1).neg() + xs[3].tile(24),
    }
    for name, function in joined.items():
        compiled = ad.compile(function)
        for _ in range(2):
            np.testing.assert_array_equal(compiled(*xs).numpy(), function(*xs).numpy(), err_msg=name)


@pytest.mark.parametrize("dtype", SOME)
@pytest.mark.parametrize(
    ("shape", "bounds"),
    [
        ((9,), ((2, 7, 1),)),
        ((9, 40), ((1, 9, 3), (0, 40, 1))),
        ((9, 40), ((0, 9, 1), (1, 39, 2))),
        ((9, 40), ((4, 4, 1), (0, 40, 1))),
        ((700, 600), ((0, 700, 1), (7, 600, 1))),
        ((3, 4, 5), ((0, 3, 2), (1, 2, 1), (4, 5, 1))),
    ],
)
def test_parts_are_written(shape: Any, bounds: Any, dtype: Any) -> None:
    part = tuple(len(range(*b)) for b in bounds)
    check(put_slice, numbers(shape, dtype), numbers(part, dtype, 1), bounds=bounds)
    check(put_slice, numbers(shape, dtype), 0.0, bounds=bounds)
    check(unslice, numbers(part, dtype), shape=shape, bounds=bounds)
    value = True if dtype == np.bool_ else 7
    check(pad, numbers(part, dtype), widths=tuple((i, 2 - i % 2) for i in range(len(part))), value=value)


def test_values_broadcast() -> None:
    x, at = numbers((6, 5, 4), np.float32), positions((3,), 6)
    for shape in ((), (4,), (5, 1), (3, 1, 4), (1, 5, 4)):
        check(put_index, x, numbers(shape, np.float32), at, pattern=(0,))
    check(put_index, x, 2.5, at, pattern=(0,))
    check(put_index, numbers((6, 5), np.int64), 0.0, at, pattern=(0,))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_shapes(data: Any) -> None:
    rank = data.draw(st.integers(1, 4))
    shape = tuple(data.draw(st.integers(1, 6)) for _ in range(rank))
    dims = data.draw(st.lists(st.integers(0, rank - 1), min_size=1, unique=True))
    middle = tuple(data.draw(st.lists(st.integers(0, 5), max_size=3)))
    pattern = tuple(dims.index(d) if d in dims else None for d in range(rank))
    at = []
    for i, d in enumerate(dims):
        cut = data.draw(st.integers(0, len(middle))) if i else 0
        ones = tuple(1 if data.draw(st.booleans()) and i else n for n in middle[cut:])
        at.append(positions(ones, shape[d], np.int64, i))
    x = numbers(shape, np.float32)
    check(index, x, *at, pattern=pattern)
    g = numbers(index.op.evaluate(x, *at, pattern=pattern).shape, np.float32, 9)
    check(index_add, g, *at, shape=shape, pattern=pattern)
    check(put_index, x, g, *at, pattern=pattern)


def seen_through(x: Value, array: Any, move: Any, views: dict[Value, StridedView]) -> tuple[Value, Any]:
    """A value that is a view of x, and its elements."""
    view = move(StridedView.whole(x))
    seen = Value(None, (), {}, _spec(view.shape, x.dtype))
    views[seen] = view
    strides = tuple(s * array.itemsize for s in view.strides)
    return seen, np.lib.stride_tricks.as_strided(array.reshape(-1)[view.offset :], view.shape, strides)


@pytest.mark.parametrize(
    ("op", "pattern"), [(index, (0,)), (index, (0, None)), (put_index, (0,)), (put_index, (None, 0))]
)
def test_operands_may_be_views(op: Any, pattern: Any) -> None:
    table, tokens, g = numbers((8, 7), np.float32), positions((4, 9), 7), numbers((60,), np.float32, 4)
    bases = [Value(None, (), {}, _spec(a.shape, a.dtype)) for a in (table, g, tokens)]
    views: dict[Value, StridedView] = {}
    turned = seen_through(bases[0], table, lambda v: v.permute((1, 0)), views)
    some = seen_through(bases[1], g, lambda v: v.slice(((3, 59, 7),)).flip((0,)), views)
    part = seen_through(bases[2], tokens, lambda v: v.slice(((0, 4, 2), (1, 9, 1))), views)
    operands = (turned, part) if op is index else (turned, some, part)
    if op is put_index and pattern == (None, 0):
        some = seen_through(bases[1], g, lambda v: v.slice(((3, 17, 2),)).reshape((7, 1, 1)), views)
        operands = (turned, some, part)
    expected = np.ascontiguousarray(op.op.evaluate(*(array for _, array in operands), pattern=pattern))
    symbols = tuple(symbol for symbol, _ in operands)
    value = Value(op.op, symbols, {"pattern": pattern}, _spec(expected.shape, expected.dtype))
    plan = plan_gather(value, host(), views.__getitem__) or plan_scatter(value, host(), views.__getitem__)
    assert plan is not None
    text = write_storing(plan, host()) if isinstance(plan, GatherPlan) else write_scatter(plan, host())
    out = Guarded(expected.shape, expected.dtype)
    memory = dict(zip(bases, (table, g, tokens), strict=True))
    Native(text)([*(memory[v] for v in plan.arguments), out.array])
    same_bits(out.check(), expected)


def _spec(shape: Any, dtype: Any) -> Spec:
    return Spec(tuple(shape), np.dtype(dtype))


def test_a_wrong_index_touches_nothing_outside() -> None:
    wild = np.array([10**12, -(10**12), 9, -10, 2**63 - 1, -(2**63)])
    x = Guarded((9, 40), np.float32, 1.0)
    value, _, _ = equation(index, x.array, np.zeros(6, np.int64), pattern=(0,))
    plan = plan_gather(value, host())
    assert isinstance(plan, GatherPlan)
    out = Guarded((6, 40), np.float32)
    Native(write_storing(plan, host()))([x.array, wild, out.array])
    assert (out.check() == 1).all()
    for op, params in ((index_add, {"pattern": (0,)}), (scatter_add, {"axis": 0})):
        at = wild if op is index_add else np.repeat(wild[:, None], 40, 1)
        value, _, _ = equation(op, np.ones((6, 40), np.float32), np.zeros_like(at), shape=(9, 40), **params)
        writing = plan_scatter(value, host())
        assert writing is not None
        Native(write_scatter(writing, host()))([np.ones((6, 40), np.float32), at, x.array])
        assert x.check().sum() == 240


def test_a_result_in_the_place_of_what_it_starts_as() -> None:
    x, g, at = numbers((40, 9), np.float32), numbers((5, 9), np.float32, 1), positions((5,), 40)
    value, expected, _ = equation(put_index, x.copy(), g, at, pattern=(0,))
    plan = plan_scatter(value, host())
    assert plan is not None
    Native(write_scatter(plan, host()))([x, g, at, x])
    same_bits(x, expected)


def test_what_is_left_to_numpy() -> None:
    half = np.zeros((3, 4), np.float16)
    at = np.zeros(2, np.int64)
    assert plan_gather(equation(index, half, at, pattern=(0,))[0], host()) is None
    assert plan_scatter(equation(put_index, half, half[:2], at, pattern=(0,))[0], host()) is None
    nothing = equation(index, np.zeros((0, 4)), np.zeros(0, np.int64), pattern=(0,))[0]
    indices = Value(None, (), {}, _spec((2,), np.int64))
    wrong = Value(nothing.op, (nothing.operands[0], indices), nothing.params, _spec((2, 4), np.float64))
    assert plan_gather(wrong, host()) is None  # whatever the indices hold


@pytest.mark.parametrize("triple", ["aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu"])
def test_other_machines(triple: str) -> None:
    target = Target.from_triple(triple)
    value, _, _ = equation(index, numbers((9, 7), np.float32), positions((30,), 7), pattern=(None, 0))
    reading = plan_gather(value, target)
    assert reading is not None
    assert "KERNEL" in target.emit_assembly(write_storing(reading, target))
    value, _, _ = equation(index_add, numbers((3, 70), np.float32), positions((3,), 9), shape=(9, 70), pattern=(0,))
    writing = plan_scatter(value, target)
    assert writing is not None
    assert "KERNEL" in target.emit_assembly(write_scatter(writing, target))
