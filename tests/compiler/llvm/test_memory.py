"""Loads and stores: tails of every length, bools, gathers, scatters; and the lanes of registers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.kernels.lanes import Array, native_lanes, run

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import BOOL, F32, F64, I32, I64, Reg, from_dtype

DTYPES = ["f4", "f8", "i1", "i4", "i8", "u1", "?"]


def ramp(size: int, dtype: str) -> Array:
    return (np.arange(size) % 3 != 1) if dtype == "?" else (np.arange(size) % 100 + 1).astype(dtype)


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "runtime"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tails_of_every_length(dtype: str, constant: bool) -> None:
    type = from_dtype(dtype)
    for lanes in (1, 2, min(native_lanes(dtype), 16)):
        source = ramp(lanes, dtype)
        for count in range(-1, lanes + 2):
            result, guard = np.zeros(3 * lanes, dtype), ramp(3 * lanes, dtype)

            def copy(b: Builder, args: Reg, lanes: int = lanes, count: int = count) -> None:
                mask = count if constant else b.lane_mask(b.load(b.argument(args, 3), I64), lanes)
                value = b.load(b.argument(args, 0), type.of(lanes), mask)
                # The whole register, to see what is in the lanes off the mask.
                b.store(value, b.argument(args, 1))
                b.store(value, b.gep(b.argument(args, 2), lanes, type), mask)

            before = guard.copy()
            run(copy, source, result, guard, np.array([count]))
            n = min(max(count, 0), lanes)
            assert np.array_equal(result[:lanes], np.where(np.arange(lanes) < n, source, np.zeros(1, dtype)))
            before[lanes : lanes + n] = source[:n]
            assert np.array_equal(guard, before)


def test_a_masked_load_does_not_touch_unreadable_memory() -> None:
    mmap = pytest.importorskip("mmap")
    ctypes = pytest.importorskip("ctypes")
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mprotect") or libc.mprotect(ctypes.c_void_p(address + page), page, 0) != 0:
        pytest.skip("no memory protection here")
    values = np.frombuffer(memory, np.float32, page // 4)[-3:]
    values[:] = [1, 2, 3]
    result = np.zeros(16, "f4")

    def load(b: Builder, args: Reg) -> None:
        mask = b.lane_mask(b.load(b.argument(args, 2), I64), 16)
        b.store(b.load(b.argument(args, 0), F32.of(16), mask), b.argument(args, 1))

    run(load, values, result, np.array([3]))
    libc.mprotect(ctypes.c_void_p(address + page), page, 3)
    assert result.tolist() == [1, 2, 3] + [0] * 13


def test_any_byte_but_zero_is_true_and_true_is_stored_as_one() -> None:
    source, result = np.array([0, 1, 2, 128, 255, 0, 7, 16], "u1"), np.full(8, 9, "u1")
    run(lambda b, args: b.store(b.load(b.argument(args, 0), BOOL.of(8)), b.argument(args, 1)), source, result)
    assert result.tolist() == [0, 1, 1, 1, 1, 0, 1, 1]


@pytest.mark.parametrize("offset_type", [I32, I64])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_and_scatter(dtype: str, offset_type: object) -> None:
    type = from_dtype(dtype)
    source = ramp(64, dtype)
    for lanes in (1, 4, 16):
        offsets = ((np.arange(lanes) * 7 + 3) % 64).astype("i4" if offset_type is I32 else "i8")
        for count in (0, 1, lanes // 2, lanes):
            gathered, scattered = np.zeros(lanes, dtype), np.zeros(64, dtype)

            def move(b: Builder, args: Reg, lanes: int = lanes, count: int = count) -> None:
                at = b.load(b.argument(args, 1), offset_type.of(lanes))
                value = b.gather(b.argument(args, 0), at, type, count)
                b.store(value, b.argument(args, 2))
                b.scatter(value, b.argument(args, 3), at, count)

            run(move, source, offsets, gathered, scattered)
            on = np.arange(lanes) < count
            assert np.array_equal(gathered, np.where(on, source[offsets], np.zeros(1, dtype)))
            want = np.zeros(64, dtype)
            want[offsets[on]] = source[offsets[on]]
            assert np.array_equal(scattered, want)


def test_the_last_lane_stays_where_a_scatter_meets_itself() -> None:
    result = np.zeros(2, "f4")
    run(lambda b, args: b.scatter(b.iota(8, F32), b.argument(args, 0), b.vector([0, 1] * 4, I64)), result)
    assert result.tolist() == [6, 7]


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
def test_reductions_halve_in_a_fixed_order(lanes: int) -> None:
    rng = np.random.default_rng(2)
    x, k = rng.standard_normal(lanes).astype("f4"), rng.integers(-99, 99, lanes).astype("i4")
    floats, integers = np.zeros(4, "f4"), np.zeros(3, "i4")

    def reduce(b: Builder, args: Reg) -> None:
        v, i = b.load(b.argument(args, 0), F32.of(lanes)), b.load(b.argument(args, 1), I32.of(lanes))
        for at, value in enumerate([b.hsum(v), b.hprod(v), b.hmax(v), b.hmin(v)]):
            b.store(value, b.gep(b.argument(args, 2), at, F32))
        for at, value in enumerate([b.hsum(i), b.hand(i), b.hor(i)]):
            b.store(value, b.gep(b.argument(args, 3), at, I32))

    run(reduce, x, k, floats, integers)
    total, product = x.copy(), x.copy()
    while total.size > 1:
        half = total.size // 2
        total, product = total[:half] + total[half:], product[:half] * product[half:]
    assert floats.tolist() == [total[0], product[0], x.max(), x.min()]
    assert integers.tolist() == [k.sum(), np.bitwise_and.reduce(k), np.bitwise_or.reduce(k)]


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
def test_reductions_of_truth_and_of_nan(lanes: int) -> None:
    for wrong in range(lanes):
        x = np.ones(lanes, "f4")
        x[wrong] = np.nan
        flags, extremes = np.zeros(4, "?"), np.zeros(2, "f4")

        def reduce(b: Builder, args: Reg) -> None:
            v = b.load(b.argument(args, 0), F32.of(lanes))
            nan = b.isnan(v)
            bits = [b.hor(nan), b.hand(nan), b.hor(b.isinf(v)), b.hand(b.logical_not(b.isinf(v)))]
            for at, value in enumerate(bits):
                b.store(value, b.gep(b.argument(args, 1), at, BOOL))
            b.store(b.hmax(v), b.argument(args, 2))
            b.store(b.hmin(v), b.gep(b.argument(args, 2), 1, F32))

        run(reduce, x, flags, extremes)
        assert flags.tolist() == [True, lanes == 1, False, True]
        assert np.isnan(extremes).all()


def test_broadcast_extract_insert_iota() -> None:
    result = np.zeros(16, "f8")

    def body(b: Builder, args: Reg) -> None:
        out = b.argument(args, 0)
        counted = b.iota(8, F64)
        b.store(b.insert(b.broadcast(b.extract(counted, 5), 8), 2.5, 1), out)
        # A scalar register is spread over the other's lanes.
        b.store(b.add(counted, b.extract(counted, 3)), b.gep(out, 8, F64))

    run(body, result)
    assert result.tolist() == [5, 2.5, 5, 5, 5, 5, 5, 5, 3, 4, 5, 6, 7, 8, 9, 10]


def test_a_mask_of_another_width_is_an_error() -> None:
    b = Builder()
    with b.kernel("k") as (args, _, _), pytest.raises(TypeError, match="a mask for 8 lanes was given as b1x4"):
        b.load(b.argument(args, 0), F32.of(8), b.lane_mask(3, 4))


def test_one_condition_chooses_whole_registers() -> None:
    result = np.zeros(8, "f4")

    def body(b: Builder, args: Reg) -> None:
        out = b.argument(args, 0)
        chosen = b.gt(b.load(out, F32), -1.0)
        b.store(b.select(chosen, b.iota(4, F32), 7.0), out)
        b.store(b.select(b.logical_not(chosen), b.iota(4, F32), 7.0), b.gep(out, 4, F32))

    run(body, result)
    assert result.tolist() == [0, 1, 2, 3, 7, 7, 7, 7]


def test_a_number_in_the_table_added_to_a_loop_s_index() -> None:
    source, result = ramp(32, "f4"), np.zeros(8, "f4")

    def copy(b: Builder, args: Reg) -> None:
        start = b.cast(b.load(b.argument(args, 2), I64), I64)
        with b.loop(0, 8) as turn:
            at = b.add(turn.index, start)
            b.store(b.load(b.gep(b.argument(args, 0), at, F32), F32), b.gep(b.argument(args, 1), turn.index, F32))

    run(copy, source, result, np.array([5]))
    assert np.array_equal(result, source[5:13])


def test_a_number_in_the_table_is_no_address() -> None:
    result = np.zeros(1, np.int64)

    def copy(b: Builder, args: Reg) -> None:
        b.store(b.number(args, 0), b.argument(args, 0))

    run(copy, result)
    assert result[0] == result.ctypes.data


def test_fields_at_offsets_in_bytes() -> None:
    record, out = np.array([(3, 2.5)], [("n", "i4"), ("x", "f8")]), np.zeros(2)

    def body(b: Builder, args: Reg) -> None:
        b.store(b.cast(b.field(b.argument(args, 0), 0, I32), F64), b.argument(args, 1))
        b.store(b.field(b.argument(args, 0), 4, F64), b.gep(b.argument(args, 1), 1, F64))

    run(body, record.view("u1"), out)
    assert out.tolist() == [3.0, 2.5]


def test_atomic_operations_on_one_number() -> None:
    number, out = np.array([5]), np.zeros(6, "i8")

    def body(b: Builder, args: Reg) -> None:
        pointer = b.argument(args, 0)
        three, nine = b.constant(3, I64), b.constant(9, I64)
        results = [
            b.atomic_update("add", pointer, three, "seq_cst"),
            b.atomic_update("sub", pointer, b.constant(1, I64), "release"),
            b.cast(b.compare_exchange(pointer, three, nine, "acq_rel", "acquire"), I64),
            b.cast(b.compare_exchange(pointer, b.constant(7, I64), nine, "acquire", "monotonic"), I64),
            b.atomic_update("xchg", pointer, three, "seq_cst"),
            b.atomic_load(pointer, I64, "acquire"),
        ]
        b.atomic_store(b.constant(11, I64), pointer, "release")
        for i, value in enumerate(results):
            b.store(value, b.gep(b.argument(args, 1), i, I64))

    run(body, number, out)
    assert out.tolist() == [5, 8, 0, 1, 9, 3]
    assert number[0] == 11
