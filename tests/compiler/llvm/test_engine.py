"""Loading objects, finding their kernels, and giving their memory back."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.compiler.llvm.arrays import call

from adjoint.compiler.llvm import engine, target
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import F64, I64


def counting(name: str, value: int) -> bytes:
    """An object whose kernel stores a number."""
    b = Builder()
    with b.kernel(name) as (args, _, _):
        b.store(b.constant(value, I64), b.argument(args, 0))
    return target.host().emit_object(b.text())


def test_many_objects_in_one_engine() -> None:
    loaded, out = engine.load([counting("one", 1), counting("two", 2)]), np.zeros(1, "i8")
    call(loaded, "two", [out])
    assert out[0] == 2
    call(loaded, "one", [out])
    assert out[0] == 1


def test_an_unknown_kernel_is_an_error() -> None:
    with pytest.raises(KeyError, match="no kernel named three"):
        engine.load([counting("one", 1)]).address("three")


@pytest.mark.skipif(sys.platform != "linux", reason="the symbols of other object formats are not read")
def test_a_missing_function_is_an_error_and_not_the_end_of_the_process() -> None:
    b = Builder()
    with b.kernel("k") as (args, _, _):
        value = b.load(b.argument(args, 0), F64)
        b.store(b.external("no_such_function", [value], F64), b.argument(args, 0))
    with pytest.raises(LookupError, match="process does not have: no_such_function"):
        engine.load([target.host().emit_object(b.text())])


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_objects_keep_their_constants_in_any_company(order: tuple[int, ...]) -> None:
    objects = []
    for i in range(3):
        b = Builder()
        with b.kernel(f"kernel{i}") as (args, _, _):
            out = b.argument(args, 0)
            value = b.load(out, F64)
            # One with constants, one with a call and a table, one with a call and constants.
            value = b.mul(value, i + 2.25) if i != 1 else value
            value = b.sin(value) if i else value
            value = b.load(b.gep(b.table([1.5, 2.5], F64), 1, F64), F64) if i == 1 else value
            b.store(value, out)
        objects.append(target.host().emit_object(b.text()))
    loaded = engine.load([objects[i] for i in order])
    for i, want in enumerate([0.5 * 2.25, 2.5, np.sin(0.5 * 4.25)]):
        values = np.array([0.5])
        call(loaded, f"kernel{i}", [values])
        assert values[0] == pytest.approx(want, rel=1e-15)


@pytest.mark.parametrize("last", [0, 1])
def test_objects_may_use_each_others_functions(last: int) -> None:
    b, user = Builder(), Builder()
    with b.function("shared", [F64], F64, visible=True) as (x,):
        b.returns(b.mul(x, 3.0))
    with user.kernel("k") as (args, _, _):
        pointer = user.argument(args, 0)
        user.store(user.external("shared", [user.load(pointer, F64)], F64), pointer)
    out = np.array([2.0])
    objects = [target.host().emit_object(v.text()) for v in (user, b)]
    call(engine.load([objects[1 - last], objects[last]]), "k", [out])
    assert out[0] == 6.0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_dropped_programs_give_their_memory_back() -> None:
    def resident() -> int:
        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    def compile_and_drop(first: int, last: int) -> None:
        for i in range(first, last):
            engine.load([counting(f"kernel{i}", i)]).address(f"kernel{i}")

    compile_and_drop(0, 100)
    before = resident()
    compile_and_drop(100, 300)
    assert (resident() - before) / 200 < 20_000


def test_threads_compile_and_load_at_once() -> None:
    def work(i: int) -> int:
        out = np.zeros(1, "i8")
        call(engine.load([counting(f"kernel{i}", i)]), f"kernel{i}", [out])
        return int(out[0])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(64))) == list(range(64))
