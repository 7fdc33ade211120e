"""Draws for eager calls: any number of uniforms or normals by one native function for each type, bit for bit."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.compiler.cache import compile_kernel
from adjoint.compiler.kernels.streams import gaussian
from adjoint.compiler.kernels.streams.stream import SPARE, filled, unit
from adjoint.compiler.kernels.streams.twister import SCRATCH, draw
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.engine import load
from adjoint.compiler.llvm.target import Target, host
from adjoint.compiler.llvm.types import F32, F64, I64, PTR, Type
from adjoint.core.boxmuller import BLOCK

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS = {F32: 1, F64: 2}  # of the stream for each number
Function = Callable[[int, int, int, int], None]


class Drawer:
    """Takes numbers from the stream whose state lies in `memory`; one draw at a time."""

    def __init__(self, memory: NDArray[np.uint32]) -> None:
        self._memory = memory
        self._scratch = np.empty(SCRATCH + SPARE, np.uint8)
        self._places = memory.ctypes.data, self._scratch.ctypes.data
        self._functions = _functions()

    def uniforms(self, count: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """Uniform on [0, 1), (count,), float32 or float64."""
        return self._drawn("uniforms", count, kind)

    def normals(self, count: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """Standard normals, (count,), float32 or float64, of which there are 16 or more."""
        return self._drawn("normals", count, kind)

    def _drawn(self, name: str, count: int, kind: np.dtype[Any]) -> NDArray[Any]:
        out = np.empty(count, kind)
        self._functions[name, kind.itemsize](*self._places, out.ctypes.data, count)
        return out


@cache
def _functions() -> dict[tuple[str, int], Function]:
    """By what is drawn and the bytes of a number; Python's lock is free while one runs."""
    engine = load([compile_kernel(_text(host()))])
    engine.keep()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return {
        (name, number.bits // 8): kind(engine.address(f"adjoint_{name}{number.bits}"))
        for name in ("uniforms", "normals")
        for number in WORDS
    }


def _text(target: Target) -> str:
    b = Builder()
    for kind in WORDS:
        _write_uniforms(b, kind, target)
        _write_normals(b, kind)
    return b.text()


def _write_uniforms(b: Builder, kind: Type, target: Target) -> None:
    per = WORDS[kind]
    name = f"adjoint_uniforms{kind.bits}"
    with b.function(name, [PTR, PTR, PTR, I64], visible=True) as (state, scratch, out, count):
        lanes = target.lanes(Type("u", 32 * per))
        draw(b, state, scratch, count, per, target, filled(b, out, per, lanes, lambda words, _: unit(b, words)))


def _write_normals(b: Builder, kind: Type) -> None:
    """Uniforms where the normals are to be, then block by block; the last block from uniforms of its own."""
    uniforms, block = f"adjoint_uniforms{kind.bits}", f"block{kind.bits}"
    with b.function(block, [PTR, PTR]) as (source, result):
        gaussian.transform(b, source, result, kind, 0.0, 1.0)
    with b.function(f"adjoint_normals{kind.bits}", [PTR, PTR, PTR, I64], visible=True) as (state, scratch, out, count):
        b.call(uniforms, [state, scratch, out, count])
        with b.loop(0, b.shr(count, BLOCK.bit_length() - 1)) as turn:
            at = b.gep(out, b.mul(turn.index, BLOCK), kind)
            b.call(block, [at, at])
        with b.when(b.ne(b.bitwise_and(count, BLOCK - 1), 0)):
            spare = b.gep(scratch, SCRATCH, Type("u", 8))
            b.call(uniforms, [state, scratch, spare, b.constant(BLOCK, I64)])
            b.call(block, [spare, b.gep(out, b.sub(count, BLOCK), kind)])
