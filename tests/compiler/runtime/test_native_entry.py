"""The entry into native code: the METH_FASTCALL function and its ctypes stand-in do the same."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.engine import Engine, load
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.llvm.types import F64
from adjoint.compiler.runtime import cpython_layout as objects
from adjoint.compiler.runtime import native_entry as runtime
from adjoint.compiler.runtime.native_entry import Check, KernelCall, Segment

ENTRIES: dict[str, Callable[..., Any]] = {"native": runtime._native_entry, "ctypes": runtime._ctypes_entry}


def kernels() -> Engine:
    """`twice(x, y)`: y[0] = 2 x[0]; `plus(x, y)`: y[0] = x[0] + y[0]."""
    objects = []
    for name in ("twice", "plus"):
        b = Builder()
        with b.kernel(name) as (args, _, _):
            x, y = b.argument(args, 0), b.argument(args, 1)
            number = b.load(x, F64)
            b.store(b.mul(number, 2.0) if name == "twice" else b.add(number, b.load(y, F64)), y)
        objects.append(host().emit_object(b.text()))
    return load(objects)


class Bench:
    """Two kernels and their tables: y = 2 x, then z = y + z. `call(x, z)`; y stays where it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
        if entry == "native" and not objects.can_read_arrays():
            pytest.skip("this Python cannot be read from outside")
        monkeypatch.setattr(objects, "can_read_arrays", lambda: entry == "native")
        self.engine = kernels()
        self.y = np.zeros(1)
        self.tables = [(ctypes.c_void_p * 2)() for _ in range(2)]
        self.tables[0][1] = self.tables[1][0] = self.y.ctypes.data
        first, second = map(ctypes.addressof, self.tables)
        steps = [KernelCall(self.engine.address("twice"), first), KernelCall(self.engine.address("plus"), second)]
        self.steps, self.bindings = steps, [(0, first), (1, second + 8)]
        self.segment = Segment([(0, first), (1, second + 8)], steps, self)
        self.call = self.segment.call


@pytest.mark.parametrize("entry", ENTRIES)
def test_kernels_run_in_order_on_the_arrays_of_each_call(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    bench = Bench(monkeypatch, entry)
    for number in (1.0, 5.0, -3.0):
        x, z = np.array([number]), np.array([100.0])
        assert bench.call(x, z) is None
        assert bench.y[0] == 2 * number
        assert z[0] == 100 + 2 * number


@pytest.mark.parametrize("entry", ENTRIES)
def test_memory_may_move_from_call_to_call(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    bench = Bench(monkeypatch, entry)
    memory = np.arange(10.0)
    for i in range(9):
        bench.call(memory[i : i + 1], memory[9:])
    assert memory[9] == 9 + 2 * sum(range(9))


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_segment_with_nothing_to_bind_and_nothing_to_run(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    monkeypatch.setattr(objects, "can_read_arrays", lambda: entry == "native")
    if entry == "ctypes" or sys.implementation.name == "cpython":
        assert Segment([], [], None).call() is None


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_call_leaks_no_reference(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    bench = Bench(monkeypatch, entry)
    x, z = np.ones(1), np.ones(1)
    bench.call(x, z)
    before = sys.getrefcount(x), sys.getrefcount(z)
    for _ in range(1000):
        bench.call(x, z)
    assert (sys.getrefcount(x), sys.getrefcount(z)) == before


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_segment_keeps_what_its_call_touches(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    bench = Bench(monkeypatch, entry)
    segment = bench.segment
    y = bench.y
    del bench
    gc.collect()
    x, z = np.array([4.0]), np.array([1.0])
    segment.call(x, z)
    assert y[0] == 8.0
    assert z[0] == 9.0


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("seconds", [0.0, 1.0], ids=["brief", "long"])
def test_a_check_that_fails_ends_the_call(monkeypatch: pytest.MonkeyPatch, entry: str, seconds: float) -> None:
    bench = Bench(monkeypatch, entry)
    truths = np.array([True, True, True])
    pointers = (ctypes.c_void_p * 3)(*(truths.ctypes.data + i for i in range(3)))
    checks = [Check(ctypes.addressof(pointers) + 8 * i) for i in range(3)]
    x, z = np.array([2.0]), np.array([100.0])
    (first, second), bindings = bench.steps, bench.bindings
    call = Segment(bindings, [checks[0], first, checks[1], checks[2], second], (bench, pointers), seconds).call
    assert call(x, z) is None
    assert (bench.y[0], z[0]) == (4.0, 104.0)
    x[0], truths[2] = 3.0, False
    assert call(x, z) == 2
    assert (bench.y[0], z[0]) == (6.0, 104.0)
    x[0], truths[0] = 4.0, False
    assert call(x, z) == 0
    assert (bench.y[0], z[0]) == (6.0, 104.0)
    truths[:] = True
    assert call(x, z) is None
    assert (bench.y[0], z[0]) == (8.0, 112.0)


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_truth_value_may_be_one_of_the_arrays(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    bench = Bench(monkeypatch, entry)
    pointer = (ctypes.c_void_p * 1)()
    call = Segment([(0, ctypes.addressof(pointer))], [Check(ctypes.addressof(pointer))], (bench, pointer)).call
    assert call(np.array(True)) is None
    assert call(np.array(False)) == 0


WAITS = """
define void @waits(ptr %args, i64 %tile, i64 %thread) {
  %flag = load ptr, ptr %args
  %held = getelementptr ptr, ptr %args, i64 1
  %turns = load ptr, ptr %held
  br label %look
look:
  %seen = load atomic i64, ptr %flag acquire, align 8
  %set = icmp ne i64 %seen, 0
  %left = load i64, ptr %turns
  %over = icmp eq i64 %left, 0
  %end = or i1 %set, %over
  br i1 %end, label %done, label %turn
turn:
  %fewer = sub i64 %left, 1
  store i64 %fewer, ptr %turns
  br label %look
done:
  ret void
}
"""


@pytest.mark.parametrize("seconds", [0.0, 1.0], ids=["brief", "long"])
def test_a_long_segment_lets_other_threads_run_and_a_brief_one_does_not(seconds: float) -> None:
    engine = load([host().emit_object(WAITS)])
    words = np.array([0, 20_000_000_000 if seconds else 1_000_000])  # a flag, and for how many turns to wait for it
    table = (ctypes.c_void_p * 2)(words.ctypes.data, words.ctypes.data + 8)
    call = Segment([], [KernelCall(engine.address("waits"), ctypes.addressof(table))], None, seconds).call
    about_to = threading.Event()

    def work() -> None:
        about_to.set()
        call()

    thread = threading.Thread(target=work)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10)  # nobody is asked to give the lock away
    try:
        thread.start()
        about_to.wait()
        before = words[1]
        words[0] = 1
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert bool(before > 0) is (seconds > 0)
    assert bool(words[1] > 0) is (seconds > 0)
