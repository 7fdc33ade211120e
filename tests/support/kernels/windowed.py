"""Runs the kernel of one equation that slides windows over images, among memory that it may not touch."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.support.kernels.single import MARK, Native, equation

from adjoint.compiler.kernels.conv_pool.windowed_op import WindowedOp, plan_windowed_op
from adjoint.compiler.kernels.kernel import Finish, ResultRegister
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import Target, host
from adjoint.compiler.llvm.types import I8, Reg, Type, from_dtype

NARROW = Target(host().triple, "", "-avx512f,+avx2,+fma" if host().vector_bits >= 256 else "")


def check(op: Any, *inputs: Any, target: Target | None = None, flat: bool = True, **params: Any) -> WindowedOp:
    """The kernel against NumPy: values, every element finished once, tiles in any order, nothing else touched."""
    target = target or host()
    value, expected, arrays = equation(op, *inputs, **params)
    spatial = plan_windowed_op(value, target, flat)
    assert spatial is not None
    text = text_of(spatial, from_dtype(value.dtype))
    native = Native(text)
    results = []
    for order, at_end in ((1, True), (-1, False)):
        operands = [Fenced(a.shape, a.dtype, at_end, a) for a in arrays]
        out = Fenced(value.shape, value.dtype, at_end, np.nan)
        times = Fenced(value.shape, value.dtype, at_end, 0)
        scratch = Fenced((spatial.scratch // 8,), np.float64, at_end, np.nan)
        held = [*operands, out, times, scratch]
        native([fenced.array for fenced in held], range(spatial.tiles)[::order])
        for operand, a in zip(operands, arrays, strict=True):
            assert operand.check().tobytes() == np.ascontiguousarray(a).tobytes()
        assert (times.check() == 1).all()
        results.append(out.check().copy())
        scratch.check()
    assert results[0].tobytes() == results[1].tobytes()
    close(results[0], expected, op, inputs, params)
    return spatial


def text_of(spatial: WindowedOp, type: Type) -> str:
    """A kernel that stores its result, and counts in another array how often each element was finished."""
    b = Builder()
    count = len(spatial.operands)
    with b.kernel(NAME_PLACEHOLDER) as (args, tile, thread):
        pointers = [b.argument(args, i) for i in range(count)]
        out, times, scratch = (b.argument(args, count + i) for i in range(3))
        own = b.gep(scratch, b.mul(thread, spatial.scratch), I8)
        spatial.write(b, pointers, own, tile, stored(b, out, times, spatial.shape, type))
    return b.text()


def stored(b: Builder, out: Reg, times: Reg, shape: Sequence[int], type: Type) -> Finish:
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]

    def finish(origin: Sequence[Reg], parts: Sequence[ResultRegister]) -> None:
        assert len(origin) == len(shape)
        at: Any = 0
        for index, step in zip(origin, steps, strict=True):
            at = b.add(b.mul(index, step), at)
        for part in parts:
            place = b.add(at, sum(o * s for o, s in zip(part.offset, steps, strict=True)))
            b.store(part.value, b.gep(out, place, type), part.mask)
            counted = b.gep(times, place, type)
            b.store(b.add(b.load(counted, part.value.type, part.mask), 1.0), counted, part.mask)

    return finish


class Fenced:
    """An array between two pages that nothing may read or write, close to the one behind it or to the one before."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, at_end: bool, fill: Any) -> None:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        page = mmap.PAGESIZE
        room = -(-size // page) * page
        self.memory = mmap.mmap(-1, room + 2 * page)
        whole = np.frombuffer(self.memory, np.uint8)
        self.inside = whole[page : page + room]
        self.inside[:] = MARK
        self.start = room - size if at_end else 0
        self.array = self.inside[self.start : self.start + size].view(dtype).reshape(shape)
        self.array[...] = fill
        protect = getattr(ctypes.CDLL(None), "mprotect", None)
        for at in (0, page + room):
            if protect is not None:
                assert protect(ctypes.c_void_p(whole.ctypes.data + at), page, 0) == 0

    def check(self) -> Any:
        """The array, if nothing beside it was written to."""
        assert (self.inside[: self.start] == MARK).all()
        assert (self.inside[self.start + self.array.nbytes :] == MARK).all()
        return self.array


def close(ours: Any, theirs: Any, op: Any, inputs: Sequence[Any], params: Any) -> None:
    """Each float32 sum as near to the float64 one as its number of terms allows; largest elements the same."""
    if op.op.name == "max_pool":
        assert ours.tobytes() == np.ascontiguousarray(theirs).tobytes()
        return
    wide = [x.astype(np.float64) if i == 0 or not op.op.name.startswith("max") else x for i, x in enumerate(inputs)]
    exact = op.op.evaluate(*wide, **params)
    absolute = op.op.evaluate(
        *(np.abs(x) if op.op.family == "convolution" or not i else x for i, x in enumerate(wide)), **params
    )
    limit = 64 * np.finfo(ours.dtype).eps
    near = np.abs(ours - exact) <= limit * absolute + np.finfo(ours.dtype).tiny
    assert (near | (np.isnan(ours) & np.isnan(exact))).all()
