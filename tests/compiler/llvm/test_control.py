"""Loops, conditions, functions, and the text they make."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.checks import raises
from tests.support.kernels.lanes import call, run

from adjoint.compiler.ir.symbolic_size import SizeRelations
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit import engine, target
from adjoint.compiler.llvm.types import F32, I64, PTR, Reg


@pytest.mark.parametrize("bounds", [(0, 10, 1), (0, 10, 3), (5, 5, 1), (7, 3, 2), (-4, 9, 4), (0, 1, 100)])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_loop_is_a_range(bounds: tuple[int, int, int], dynamic: bool) -> None:
    low, high, step = bounds
    out = np.zeros(2, "i8")

    def body(b: Builder, args: Reg) -> None:
        given = b.argument(args, 1)
        first, last = (b.load(b.gep(given, i, I64), I64) for i in range(2)) if dynamic else (low, high)
        zero = b.constant(0, I64)
        with b.loop(first, last, step, carried=[zero, zero]) as loop:
            total, count = loop.carried
            loop.yields(b.add(total, loop.index), b.add(count, 1))
        for at, value in enumerate(loop.results):
            b.store(value, b.gep(b.argument(args, 0), at, I64))

    run(body, out, np.array([low, high]))
    assert out.tolist() == [sum(range(low, high, step)), len(range(low, high, step))]


def test_the_counter_of_a_loop_that_carries_nothing_is_hidden_from_loop_strength_reduction() -> None:
    b = Builder()
    with b.kernel("counted"):
        with b.loop(0, 3) as plain:
            pass
        with b.loop(0, 3, carried=[b.constant(0, I64)]) as summing:
            summing.yields(summing.carried[0])
    assert f"{plain.index.name} = call i64 @llvm.expect.i64(" in b.text()
    assert f"{summing.index.name} = phi i64" in b.text()


def test_nested_loops_and_conditions() -> None:
    out = np.zeros(1, "i8")

    def body(b: Builder, args: Reg) -> None:
        with b.loop(0, 5, carried=[b.constant(0, I64)]) as rows:
            with b.loop(0, rows.index, carried=rows.carried) as columns:
                odd = b.ne(b.bitwise_and(columns.index, 1), 0)
                with b.when(odd, columns.carried) as branch:
                    branch.yields(b.add(columns.carried[0], b.mul(rows.index, columns.index)))
                columns.yields(*branch.results)
            rows.yields(*columns.results)
        b.store(rows.results[0], b.argument(args, 0))

    run(body, out)
    assert out[0] == sum(i * j for i in range(5) for j in range(i) if j % 2)


def test_a_function_is_left_from_within_loops() -> None:
    b, out = Builder(), np.zeros(1, "i8")
    with b.function("find", [PTR, I64], I64) as (numbers, wanted):
        with b.loop(0, 8) as loop:
            b.return_if(b.eq(b.number(numbers, loop.index), wanted), loop.index)
        b.returns(b.constant(-1, I64))
    with b.function("find_twice", [PTR, I64], I64) as (numbers, wanted):
        first = b.call("find", [numbers, wanted], I64)
        with b.when(b.lt(first, 0)):
            b.return_now(b.constant(-2, I64))
        b.returns(first)
    for name, wanted in (("present", 49), ("absent", 50)):
        with b.kernel(name) as (args, _, _):
            b.store(b.call("find_twice", [b.argument(args, 1), b.constant(wanted, I64)], I64), b.argument(args, 0))
    loaded = engine.load([target.host().emit_object(b.text())])
    for name, expected in (("present", 7), ("absent", -2)):
        call(loaded, name, [out, np.arange(8) ** 2])
        assert out[0] == expected


def test_a_loop_without_a_count_ends_where_it_is_told() -> None:
    out = np.zeros(2, "i8")

    def body(b: Builder, args: Reg) -> None:
        with b.repeat([b.constant(27, I64), b.constant(0, I64)]) as loop:  # Collatz
            n, steps = loop.carried
            loop.ends_if(b.eq(n, 1))
            odd = b.ne(b.bitwise_and(n, 1), 0)
            loop.yields(b.select(odd, b.add(b.mul(n, 3), 1), b.shr(n, 1)), b.add(steps, 1))
        for i, value in enumerate(loop.results):
            b.store(value, b.gep(b.argument(args, 0), i, I64))

    run(body, out)
    assert out.tolist() == [1, 111]


def test_a_function_is_called_by_its_address() -> None:
    b, out = Builder(), np.zeros(1, "i8")
    with b.function("twice", [I64], I64) as (x,):
        b.returns(b.add(x, x))
    with b.kernel("pointed") as (args, _, _):
        room = b.stack(1, PTR)
        b.store(Reg("@twice", PTR), room)
        b.store(b.call(b.load(room, PTR), [b.constant(21, I64)], I64), b.argument(args, 0))
    call(engine.load([target.host().emit_object(b.text())]), "pointed", [out])
    assert out[0] == 42


def test_a_kernel_knows_its_tile_and_thread() -> None:
    b, out = Builder(), np.zeros(2, "i8")
    with b.kernel("where") as (args, tile, thread):
        b.store(tile, b.argument(args, 0))
        b.store(thread, b.gep(b.argument(args, 0), 1, I64))
    call(engine.load([target.host().emit_object(b.text())]), "where", [out], tile=5, thread=3)
    assert out.tolist() == [5, 3]


def test_functions_call_each_other() -> None:
    b, out = Builder(), np.zeros(8, "f4")
    with b.function("twice", [F32.of(8)], F32.of(8)) as (x,):
        b.returns(b.add(x, x))
    with b.kernel("quadruple") as (args, _, _):
        pointer = b.argument(args, 0)
        once = b.call("twice", [b.constant(1.5, F32.of(8))], F32.of(8))
        again = b.call("twice", [once], F32.of(8))
        b.store(again, pointer)
    call(engine.load([target.host().emit_object(b.text())]), "quadruple", [out])
    assert out.tolist() == [6.0] * 8


def write_everything() -> str:
    b = Builder()
    with b.kernel("everything") as (args, _, _):
        x, y = (b.load(b.argument(args, i), F32.of(16), 13) for i in range(2))
        value = b.atan2(b.pow(b.sin(x), b.log(y)), b.erfc(b.gather(b.argument(args, 2), b.cast(x, I64), F32)))
        with b.loop(0, 9, carried=[value]) as loop:
            loop.yields(b.maximum(loop.carried[0], b.tanh(b.exp(loop.carried[0]))))
        b.store(loop.results[0], b.argument(args, 3), b.gt(x, y))
    return b.text()


def test_equal_kernels_have_equal_text() -> None:
    assert write_everything() == write_everything()


def test_no_instruction_may_be_reassociated_or_contracted() -> None:
    words = set(write_everything().replace("(", " ").split())
    assert not words & {"fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc"}


def test_the_text_of_a_kernel() -> None:
    b = Builder()
    with b.kernel("scale") as (args, _, _):
        pointer = b.argument(args, 0)
        b.store(b.mul(b.load(pointer, F32), 2.0), pointer)
    assert b.text() == (
        "define void @scale(ptr %args, i64 %tile, i64 %thread) #0 {\n"
        "entry:\n"
        "  %v1 = getelementptr inbounds ptr, ptr %args, i64 0\n"
        "  %v2 = load ptr, ptr %v1, align 8\n"
        "  %v3 = load float, ptr %v2, align 4\n"
        "  %v4 = fmul float %v3, 0x4000000000000000\n"
        "  store float %v4, ptr %v2, align 4\n"
        "  ret void\n"
        "}\n"
        "attributes #0 = { nounwind }\n"
    )


def test_what_cannot_be_written_is_an_error() -> None:
    b = Builder()
    with b.kernel("k") as (args, _, _):
        with pytest.raises(RuntimeError, match="function inner begins inside another"), b.function("inner", []):
            pass
        raises(RuntimeError, "inside a function", b.text)
        with pytest.raises(ValueError, match="a loop needs a positive step, got 0"), b.loop(0, 1, 0):
            pass
        with pytest.raises(TypeError, match="a condition is one bool, got i64"), b.when(b.constant(1, I64)):
            pass
        value = b.load(b.argument(args, 0), F32)
        with pytest.raises(RuntimeError, match="carries 1 values and yields none"), b.loop(0, 1, carried=[value]):
            pass
        with b.loop(0, 1, carried=[value]) as loop:
            raises(TypeError, r"carries \['f32'\] was given \['i64'\]", lambda: loop.yields(loop.index))
            loop.yields(value)
    with pytest.raises(TypeError, match="function f returns f32, was given None"), b.function("f", [], F32):
        pass


def test_sizes_are_computed_once_where_a_kernel_begins() -> None:
    sizes = SizeRelations()
    n, m = sizes.add_symbol(57), sizes.add_symbol(31)
    b = Builder()
    with b.kernel("sized") as (args, _, _), b.loop(0, n) as row, b.loop(0, m) as column:
        for _ in range(2):
            index = b.add(b.mul(row.index, (n + 3) // 2), column.index)
            b.store(b.constant(1.0, F32), b.gep(args, index, F32))
        b.gep(args, 100 // (n - 2), F32)  # which fails in a call without turns, if there were such
    text = b.text()
    first, second = (i for i in range(len(text)) if text.startswith("udiv", i))
    assert first < text.index("head") < second
