"""Kernels that draw: a generator's next numbers written to memory, its state moved on, bit for bit as eagerly.

One tile does it all, since each block of the stream follows from the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER
from adjoint.compiler.kernels.random import box_muller
from adjoint.compiler.kernels.random.mt19937 import SCRATCH_BYTES, U64, Take, draw
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.math.wide_precision import library
from adjoint.compiler.llvm.types import F32, F64, I64, PTR, U32, Operand, Reg, Type, from_dtype
from adjoint.core.random.box_muller import BLOCK
from adjoint.core.typing import NumpyDtype, Params

SPARE_BYTES = 256  # bytes of scratch behind the stream's: the uniforms of the last block of normals
UNIFORM_BITS = {F32: 24, F64: 53}  # bits of a uniform

# The number made of a register of words: `element(words, place)`, whose first is number `place` of the draw.
Element = Callable[[Reg, Reg], Reg]


class DrawPlan(NamedTuple):
    """A draw that native code can do; its table is state, operands, result, scratch memory of `scratch` bytes."""

    name: str
    total: int
    dtype: NumpyDtype
    source: Any  # the type of the operand, None without one
    params: Params
    scratch: int = (SCRATCH_BYTES + SPARE_BYTES + 63) // 64 * 64


def plan_draw(value: Value) -> DrawPlan | None:
    """Plan the draw of an equation of `ops.random`; None if it is left to NumPy.

    Those are permutations, fewer than 16 normals, whose second of a pair Python keeps, numbers without a kernel type,
    and draws that take nothing from the stream. A kernel checks nothing: None too if the parameters are invalid,
    and of `bernoulli` it relies on operands within [0, 1].
    """
    name, params, dtype = value.op.name, value.params, np.dtype(value.dtype)
    if name not in _ELEMENTS or not value.size or dtype.kind not in "fiub" or dtype == np.float16:
        return None
    if name not in ("bernoulli", "coin", "randint") and dtype.kind != "f":
        return None
    if not _VALID[name](params, dtype) or (name == "normal" and value.size < BLOCK):
        return None
    operands = value.operands
    source = np.dtype(operands[0].dtype) if operands else None
    if name == "bernoulli" and (len(operands) != 1 or source not in (np.float32, np.float64)):
        return None
    return DrawPlan(name, value.size, dtype, source, {k: v for k, v in params.items() if k != "generator"})


def _valid_uniform(params: Params, dtype: NumpyDtype) -> bool:
    low, high, limit = params["low"], params["high"], float(np.finfo(dtype).max)
    return abs(low) <= limit and abs(high) <= limit and low <= high and high - low <= limit


def _valid_range(params: Params, dtype: NumpyDtype) -> bool:
    low, high = params["low"], params["high"]
    if dtype.kind == "f":
        smallest, largest = -(2 ** (np.finfo(dtype).nmant + 1)), 2 ** (np.finfo(dtype).nmant + 1)
    else:
        smallest, largest = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return smallest <= low < high <= largest + 1


_VALID: dict[str, Callable[[Params, NumpyDtype], bool]] = {
    "uniform": _valid_uniform,
    "normal": lambda params, dtype: params["std"] >= 0,
    "randint": _valid_range,
    "coin": lambda params, dtype: 0 <= params["p"] <= 1,
    "exponential": lambda params, dtype: params["rate"] > 0,
    "dropout_factor": lambda params, dtype: 0 < params["p"] < 1,
    "bernoulli": lambda params, dtype: True,
}


def write_draw(plan: DrawPlan, target: Target) -> str:
    """The module of a draw, its kernel called NAME."""
    b = Builder(has_fma=target.has_fma)
    if plan.name == "normal":
        _write_normal(b, plan, target)
    else:
        rows = [None] if plan.source is None else [None, plan.source]
        with b.kernel(NAME_PLACEHOLDER) as (args, _, thread):
            state, *operands, out, scratch = (b.argument(args, i) for i in range(len(rows) + 2))
            scratch = b.gep(scratch, b.mul(thread, plan.scratch), Type("u", 8))
            per, element = _ELEMENTS[plan.name](b, plan, operands)
            take = make_element_writer(b, out, per, _lanes(target, per), element)
            draw(b, state, scratch, plan.total, per, target, take)
    return b.text()


def make_element_writer(b: Builder, out: Reg, per: int, lanes: int, element: Element) -> Take:
    """Return a function that makes elements of words and stores them one after the other."""

    def take(buffer: Reg, first: Reg, count: Reg) -> None:
        whole = b.bitwise_and(count, -lanes)

        def step(i: Reg) -> tuple[Reg, Reg, Reg]:
            place = b.add(first, i)
            words = b.load(b.gep(buffer, b.mul(i, per), U32), _WORDS[per].of(lanes))
            value = element(b.bitwise_or(b.shl(words, 32), b.shr(words, 32)) if per == 2 else words, place)
            return value, b.gep(out, place, value.type), i

        with b.loop(0, whole, lanes) as turn:
            value, at, _ = step(turn.index)
            b.store(value, at)
        with b.when(b.lt(whole, count)):
            value, at, i = step(whole)
            b.store(value, at, b.lane_mask(b.sub(count, i), lanes))

    return take


_WORDS = {1: U32, 2: U64}  # two words, the first of which is the higher half, have to change places


def _lanes(target: Target, per: int) -> int:
    return target.lanes(_WORDS[per])


def to_unit_interval(b: Builder, words: Reg) -> Reg:
    """Uniform on [0, 1): 24 bits of one word in float32, 53 of two in float64."""
    kind = F32 if words.type.bits == U32.bits else F64
    bits = b.bitwise_and(words, 2 ** UNIFORM_BITS[kind] - 1)
    signed = Reg(bits.name, Type("i", bits.type.bits, bits.type.lanes))
    return b.mul(b.cast(signed, kind), 2.0 ** -UNIFORM_BITS[kind])


def _uniform(b: Builder, plan: DrawPlan, _: list[Reg]) -> tuple[int, Element]:
    per, kind = (1, F32) if plan.dtype == np.float32 else (2, F64)
    low, high = plan.params["low"], plan.params["high"]
    first, last = plan.dtype.type(low), plan.dtype.type(high)

    def element(words: Reg, _: Reg) -> Reg:
        if (low, high) == (0, 1):
            return to_unit_interval(b, words)
        value = b.fma(to_unit_interval(b, words), float(last - first), float(first))
        return b.select(b.eq(value, float(last)), b.constant(float(first), kind), value)

    return per, element


def _threshold(b: Builder, words: Reg, p: float) -> Reg:
    """u < p of the 53-bit uniform u, as a comparison of its bits."""
    return b.lt(b.bitwise_and(words, 2**53 - 1), math.ceil(p * 2.0**53))


def _dropout(b: Builder, plan: DrawPlan, _: list[Reg]) -> tuple[int, Element]:
    kind, p = plan.dtype.type, plan.params["p"]
    kept = b.constant(float(kind(1) / kind(1 - p)), from_dtype(plan.dtype))
    return 2, lambda words, _: b.select(_threshold(b, words, 1 - p), kept, 0.0)


def _bernoulli(b: Builder, plan: DrawPlan, operands: list[Reg]) -> tuple[int, Element]:
    kind = from_dtype(plan.source)

    def element(words: Reg, place: Reg) -> Reg:
        lanes = words.type.lanes
        # The tail reads as far as it writes and no further.
        inside = b.lane_mask(b.sub(b.constant(plan.total, I64), place), lanes)
        chances = b.load(b.gep(operands[0], place, kind), kind.of(lanes), inside)
        return b.cast(b.lt(to_unit_interval(b, words), chances), from_dtype(plan.dtype))

    return 1 if kind == F32 else 2, element


def _randint(b: Builder, plan: DrawPlan, _: list[Reg]) -> tuple[int, Element]:
    low, size = plan.params["low"], plan.params["high"] - plan.params["low"]

    def element(words: Reg, _: Reg) -> Reg:
        words = words if size == 2**64 else b.remainder(words, size)
        return b.cast(b.cast(b.add(b.cast(words, U64), low % 2**64), I64), from_dtype(plan.dtype))

    return 2 if size >= 2**28 else 1, element


def _exponential(b: Builder, plan: DrawPlan, _: list[Reg]) -> tuple[int, Element]:
    scale = -1.0 / plan.params["rate"]

    def element(words: Reg, _: Reg) -> Reg:
        return b.cast(b.mul(library(b, "log1p", b.neg(to_unit_interval(b, words))), scale), from_dtype(plan.dtype))

    return 2, element


def _write_normal(b: Builder, plan: DrawPlan, target: Target) -> None:
    """Uniforms where the result is to be, then block by block normals; the last block from uniforms of its own."""
    per, kind = (1, F32) if plan.dtype == np.float32 else (2, F64)
    mean, std = (float(plan.dtype.type(plan.params[name])) for name in ("mean", "std"))
    with b.function("uniforms", [PTR, PTR, PTR, I64]) as (state, scratch, out, count):
        take = make_element_writer(b, out, per, _lanes(target, per), lambda words, _: to_unit_interval(b, words))
        draw(b, state, scratch, count, per, target, take)
    with b.function("normals", [PTR, PTR]) as (source, result):
        box_muller.transform(b, source, result, kind, mean, std)
    with b.kernel(NAME_PLACEHOLDER) as (args, _, thread):
        state, out, scratch = (b.argument(args, i) for i in range(3))
        scratch = b.gep(scratch, b.mul(thread, plan.scratch), Type("u", 8))
        b.call("uniforms", [state, scratch, out, _number(b, plan.total)])
        with b.loop(0, plan.total // BLOCK) as turn:
            at = b.gep(out, b.mul(turn.index, BLOCK), kind)
            b.call("normals", [at, at])
        if rest := plan.total % BLOCK:
            with b.when(b.ne(_number(b, rest), 0)):  # of a size that is a symbol it may be 0 after all
                spare = b.gep(scratch, SCRATCH_BYTES, Type("u", 8))
                b.call("uniforms", [state, scratch, spare, _number(b, BLOCK)])
                b.call("normals", [spare, b.gep(out, plan.total - BLOCK, kind)])


def _number(b: Builder, value: Operand) -> Reg:
    return value if isinstance(value, Reg) else b.constant(value, I64)


_ELEMENTS: dict[str, Callable[[Builder, DrawPlan, list[Reg]], tuple[int, Element]]] = {
    "uniform": _uniform,
    "normal": _uniform,
    "bernoulli": _bernoulli,
    "coin": lambda b, plan, _: (
        2,
        lambda words, _: b.cast(_threshold(b, words, plan.params["p"]), from_dtype(plan.dtype)),
    ),
    "randint": _randint,
    "exponential": _exponential,
    "dropout_factor": _dropout,
}
