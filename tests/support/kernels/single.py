"""One kernel called by itself: its table of addresses, its tiles in any order, and what it may not touch."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from adjoint.compiler.cache.object_cache import compile_kernel
from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import row_major
from adjoint.compiler.kernels.gather_scatter.gather import GatherPlan, write_gather
from adjoint.compiler.kernels.gather_scatter.index_space import Shape, add_strided
from adjoint.compiler.kernels.kernel import Finish, ResultRegister
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER, name_by_digest
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.engine import Engine, load
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import I64, Reg, Type
from adjoint.core.op.spec import Spec

GUARD = 64  # bytes around an array which must stay as they are
MARK = 0xA5


@cache
def emit_object(machine: Target, text: str) -> bytes:
    """A kernel's code for a machine: tests of other operands, and of tiles in another order, use it again."""
    return machine.emit_object(text)


class Native:
    """A kernel's text as a function of arrays."""

    def __init__(self, text: str, kind: str = "test") -> None:
        name, text = name_by_digest(text, kind)
        self.engine: Engine = load([compile_kernel(text)])
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self.function = prototype(self.engine.address(name))

    def __call__(self, arrays: Sequence[Any], tiles: Iterable[int] = (0,), thread: int = 0) -> None:
        table = self.table(arrays)
        for tile in tiles:
            self.function(table, tile, thread)

    @staticmethod
    def table(arrays: Sequence[Any]) -> Any:
        """The addresses of the arrays."""
        return (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))


class Guarded:
    """An array with marked bytes around it."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, fill: Any = None) -> None:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.memory = np.full(size + 2 * GUARD, MARK, np.uint8)
        self.array = self.memory[GUARD : GUARD + size].view(dtype).reshape(shape)
        if fill is not None:
            self.array[...] = fill

    def check(self) -> Any:
        """The array, if nothing around it was written to."""
        assert (self.memory[:GUARD] == MARK).all()
        assert (self.memory[len(self.memory) - GUARD :] == MARK).all()
        return self.array


def equation(op: Any, *inputs: Any, **params: Any) -> tuple[Value, Any, list[Any]]:
    """An equation of the op, what NumPy makes of it, and its array operands."""
    expected = np.asarray(op.op.evaluate(*inputs, **params))
    operands = [Value(None, (), {}, Spec(x.shape, x.dtype)) if isinstance(x, np.ndarray) else x for x in inputs]
    arrays = [x for x in inputs if isinstance(x, np.ndarray)]
    return Value(op.op, tuple(operands), params, Spec(expected.shape, expected.dtype)), expected, arrays


def same_bits(ours: Any, theirs: Any) -> None:
    """Assert one shape, one type, and the same bytes."""
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    assert ours.tobytes() == theirs.tobytes()


def storing(b: Builder, pointer: Reg, shape: Shape, kind: Type) -> Finish:
    """What only stores, at a row-major array."""
    strides = row_major(shape)

    def finish(origin: Sequence[Reg], parts: Sequence[ResultRegister]) -> None:
        offset = b.constant(0, I64)
        for index, stride in zip(origin, strides, strict=True):
            offset = add_strided(b, offset, index, stride)
        place = b.gep(pointer, offset, kind)
        for part in parts:
            by = sum(o * s for o, s in zip(part.offset, strides, strict=True))
            b.store(part.value, b.gep(place, by, kind) if by else place, part.mask)

    return finish


def write_storing(plan: GatherPlan, target: Target) -> str:
    """The module of a kernel that reads and stores: its table is `arguments`, then the result."""
    b = Builder()
    with b.kernel(NAME_PLACEHOLDER) as (args, tile, _):
        pointers = {base: b.argument(args, i) for i, base in enumerate(plan.arguments)}
        out = b.argument(args, len(plan.arguments))
        write_gather(plan, b, args, pointers, tile, storing(b, out, plan.shape, plan.kind), target)
    return b.text()
