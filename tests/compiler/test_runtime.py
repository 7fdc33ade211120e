"""The entry into native code: the METH_FASTCALL function and its ctypes stand-in do the same."""

from __future__ import annotations

import ctypes
import gc
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")
from adjoint.compiler import runtime
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.engine import Engine, load
from adjoint.compiler.llvm.target import host
from adjoint.compiler.llvm.types import F64
from adjoint.compiler.runtime import Segment

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
        if entry == "native" and not runtime._reads_ndarrays():
            pytest.skip("this Python cannot be read from outside")
        monkeypatch.setattr(runtime, "_reads_ndarrays", lambda: entry == "native")
        self.engine = kernels()
        self.y = np.zeros(1)
        self.tables = [(ctypes.c_void_p * 2)() for _ in range(2)]
        self.tables[0][1] = self.tables[1][0] = self.y.ctypes.data
        first, second = map(ctypes.addressof, self.tables)
        calls = [(self.engine.address("twice"), first), (self.engine.address("plus"), second)]
        self.segment = Segment([(0, first), (1, second + 8)], calls, self)
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
    monkeypatch.setattr(runtime, "_reads_ndarrays", lambda: entry == "native")
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


def test_the_plan_is_laid_out_as_the_entry_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def entry(plan: bytes, slots: list[int], which: list[int]) -> Any:
        seen.append((struct.unpack(f"{len(plan) // 8}q", plan), slots, which))
        return (lambda: None), None

    monkeypatch.setattr(runtime, "_native_entry", entry)
    monkeypatch.setattr(runtime, "_ctypes_entry", entry)
    Segment([(1, 800), (0, 808)], [(16, 24)], None)
    (words, slots, which) = seen[0]
    assert words[0] == id(None)
    assert words[2:] == (2, 1, 800, 0, 808, 1, 16, 24)
    assert (slots, which) == ([800, 808], [1, 0])
