"""Draws for eager calls, any number at once: uniforms, normals, integers and permutations, bit for bit."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.compiler.cache.object_cache import compile_kernel
from adjoint.compiler.kernels.random import box_muller
from adjoint.compiler.kernels.random.draw import SPARE_BYTES, make_element_writer, to_unit_interval
from adjoint.compiler.kernels.random.mt19937 import SCRATCH_BYTES, U64, draw
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.engine import load
from adjoint.compiler.llvm.jit.target import Target, host
from adjoint.compiler.llvm.math.wide_precision import library
from adjoint.compiler.llvm.types import F32, F64, I64, PTR, U8, U32, Reg, Type
from adjoint.compiler.runtime.cpython_layout import DATA, can_read_arrays
from adjoint.core.random.box_muller import BLOCK
from adjoint.core.typing import Array, NumpyDtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS = {F32: 1, F64: 2}  # of the stream for each number
Function = Callable[..., None]


class Drawer:
    """Takes numbers from the stream whose state lies in `memory`; one draw at a time."""

    def __init__(self, memory: NDArray[np.uint32]) -> None:
        self._memory = memory
        self._scratch = np.empty(SCRATCH_BYTES + SPARE_BYTES + 8, np.uint8)  # and the address of what is spare
        self._places = memory.ctypes.data, self._scratch.ctypes.data
        self._functions = _functions()

    def units(self, count: int, kind: NumpyDtype) -> Array:
        """Uniform on [0, 1), (count,), float32 or float64."""
        out = np.empty(count, kind)
        self._functions["uniforms", kind.itemsize](*self._places, _find_data_address(out), count, 1.0, 0.0, 1.0)
        return out

    def uniforms(self, count: int, kind: NumpyDtype, first: float, last: float) -> Array:
        """Uniform on [first, last), two numbers of the dtype, (count,), float32 or float64."""
        out = np.empty(count, kind)
        ends = float(last - first), float(first), float(last)  # ctypes takes longer for NumPy's scalars
        self._functions["uniforms", kind.itemsize](*self._places, _find_data_address(out), count, *ends)
        return out

    def exponentials(self, count: int, kind: NumpyDtype, rate: float) -> Array:
        """-ln(1 - u) / rate, with u in float64, rounded to the dtype, (count,), float32 or float64."""
        out = np.empty(count, kind)
        self._functions["exponentials", kind.itemsize](*self._places, _find_data_address(out), count, -1.0 / rate)
        return out

    def normals(self, count: int, kind: NumpyDtype) -> Array:
        """Standard normals, (count,), float32 or float64, of which there are 16 or more."""
        out = np.empty(count, kind)
        self._functions["normals", kind.itemsize](*self._places, _find_data_address(out), count)
        return out

    def integers(self, count: int, low: int, span: int) -> NDArray[np.int64]:
        """low + w mod span for `count` > 0 words w, int64; the span is below 2**28."""
        out = np.empty(count, np.int64)
        self._functions["integers", 8](*self._places, _find_data_address(out), count, low, span)
        return out

    def permutation(self, count: int) -> NDArray[np.int64]:
        """The integers below `count` > 1, shuffled by a word for each but the last, int64."""
        out = np.arange(count, dtype=np.int64)
        self._functions["permutation", 8](*self._places, _find_data_address(out), count)
        return out


def _find_data_address(array: Array) -> Any:
    """Return the place of an array's data pointer; `array.ctypes.data` would take longer than a short draw."""
    return id(array) + DATA if can_read_arrays() else ctypes.byref(ctypes.c_void_p(array.ctypes.data))


@cache
def _functions() -> dict[tuple[str, int], Function]:
    """Return the functions by what is drawn and the bytes of a number; Python's lock is free while one runs."""
    engine = load([compile_kernel(_text(host()))])
    engine.keep()
    places = [ctypes.c_void_p] * 3
    kind = ctypes.CFUNCTYPE(None, *places, ctypes.c_int64)
    ranged = ctypes.CFUNCTYPE(None, *places, *[ctypes.c_int64] * 3)
    scaled = ctypes.CFUNCTYPE(None, *places, ctypes.c_int64, *[ctypes.c_double] * 3)
    found: dict[tuple[str, int], Function] = {
        (name, number.bits // 8): signature(engine.address(f"adjoint_{name}{number.bits}"))
        for name, signature in (("uniforms", scaled), ("normals", kind))
        for number in WORDS
    }
    stretched = ctypes.CFUNCTYPE(None, *places, ctypes.c_int64, ctypes.c_double)
    for number in WORDS:
        found["exponentials", number.bits // 8] = stretched(engine.address(f"adjoint_exponentials{number.bits}"))
    found["integers", 8] = ranged(engine.address("adjoint_integers"))
    found["permutation", 8] = kind(engine.address("adjoint_permutation"))
    return found


def _text(target: Target) -> str:
    b = Builder(has_fma=target.has_fma)
    for kind in WORDS:
        _write_uniforms(b, kind, target)
        _write_normals(b, kind)
        _write_exponentials(b, kind, target)
    _write_integers(b, target)
    _write_permutation(b, target)
    return b.text()


def _write_uniforms(b: Builder, kind: Type, target: Target) -> None:
    """u span + first, rounded once; where that reaches `last`, the open end, first."""
    per = WORDS[kind]
    name = f"adjoint_uniforms{kind.bits}"
    with b.function(name, [PTR, PTR, PTR, I64, F64, F64, F64], visible=True) as (state, scratch, place, count, *ends):
        out = b.load(place, PTR)
        lanes = target.lanes(Type("u", 32 * per))
        span, first, last = (b.cast(end, kind) for end in ends)

        def element(words: Reg, _: Reg) -> Reg:
            value = b.fma(to_unit_interval(b, words), span, first)
            return b.select(b.eq(value, last), first, value)

        draw(b, state, scratch, count, per, target, make_element_writer(b, out, per, lanes, element))


def _write_exponentials(b: Builder, kind: Type, target: Target) -> None:
    """ln(1 - u) scale, with u in float64, rounded once."""
    name = f"adjoint_exponentials{kind.bits}"
    with b.function(name, [PTR, PTR, PTR, I64, F64], visible=True) as (state, scratch, place, count, scale):
        out = b.load(place, PTR)

        def element(words: Reg, _: Reg) -> Reg:
            return b.cast(b.mul(library(b, "log1p", b.neg(to_unit_interval(b, words))), scale), kind)

        take = make_element_writer(b, out, 2, target.lanes(U64), element)
        draw(b, state, scratch, count, 2, target, take)


def _write_normals(b: Builder, kind: Type) -> None:
    """Uniforms where the normals are to be, then block by block; the last block from uniforms of its own."""
    uniforms, block = f"adjoint_uniforms{kind.bits}", f"block{kind.bits}"
    with b.function(block, [PTR, PTR]) as (source, result):
        box_muller.transform(b, source, result, kind, 0.0, 1.0)
    name = f"adjoint_normals{kind.bits}"
    with b.function(name, [PTR, PTR, PTR, I64], visible=True) as (state, scratch, place, count):
        out = b.load(place, PTR)
        unit_interval = [b.constant(number, F64) for number in (1.0, 0.0, 1.0)]
        b.call(uniforms, [state, scratch, place, count, *unit_interval])
        with b.loop(0, b.shr(count, BLOCK.bit_length() - 1)) as turn:
            at = b.gep(out, b.mul(turn.index, BLOCK), kind)
            b.call(block, [at, at])
        with b.when(b.ne(b.bitwise_and(count, BLOCK - 1), 0)):
            spare = b.gep(scratch, SCRATCH_BYTES, U8)
            b.store(spare, b.gep(scratch, SCRATCH_BYTES + SPARE_BYTES, U8))
            last_place = b.gep(scratch, SCRATCH_BYTES + SPARE_BYTES, U8)
            b.call(uniforms, [state, scratch, last_place, b.constant(BLOCK, I64), *unit_interval])
            b.call(block, [spare, b.gep(out, b.sub(count, BLOCK), kind)])


def _write_integers(b: Builder, target: Target) -> None:
    """The quotient by way of float64, which may be one off; a division of integers takes ten times as long."""
    lanes = target.lanes(U32)
    with b.function("adjoint_integers", [PTR, PTR, PTR, I64, I64, I64], visible=True) as parameters:
        state, scratch, place, count, low, span = parameters
        out = b.load(place, PTR)
        inverse = b.div(b.constant(1.0, F64), b.cast(span, F64))

        def number(words: Reg, _: Reg) -> Reg:
            word = b.cast(words, I64)
            rest = b.sub(word, b.mul(b.cast(b.mul(b.cast(word, F64), inverse), I64), span))
            rest = b.select(b.lt(rest, 0), b.add(rest, span), rest)
            return b.add(b.select(b.lt(rest, span), rest, b.sub(rest, span)), low)

        draw(b, state, scratch, count, 1, target, make_element_writer(b, out, 1, lanes, number))


def _write_permutation(b: Builder, target: Target) -> None:
    """Fisher and Yates from the front: as the words come, each swaps the next place with it or one behind it."""
    with b.function("adjoint_permutation", [PTR, PTR, PTR, I64], visible=True) as (state, scratch, place, count):
        out = b.load(place, PTR)

        def swap(buffer: Reg, first: Reg, words: Reg) -> None:
            with b.loop(0, words) as turn:
                place = b.add(first, turn.index)
                word = b.cast(b.load(b.gep(buffer, turn.index, U32), U32), U64)
                left = b.cast(b.sub(count, place), U64)
                other = b.add(place, b.cast(b.remainder(word, left), I64))
                here, there = b.gep(out, place, I64), b.gep(out, other, I64)
                held = b.load(here, I64)
                b.store(b.load(there, I64), here)
                b.store(held, there)

        draw(b, state, scratch, b.sub(count, 1), 1, target, swap)
