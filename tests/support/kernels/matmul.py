"""Runs planned matrix products over NumPy arrays: what every test of the product kernel does."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from tests.support.kernels.single import emit_object

from adjoint.compiler.kernels.kernel import Prepare, ResultRegister
from adjoint.compiler.kernels.kernel_text import NAME_PLACEHOLDER
from adjoint.compiler.kernels.matmul.matmul import MatmulPlan, MatrixStrides, plan_matmul, write_matmul
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit import engine, target
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import Reg, from_dtype

Array = np.ndarray[Any, Any]


@cache
def narrowed() -> Target:
    """This machine without its 512-bit registers."""
    host = target.host()
    features = [feature for feature in host.features.split(",") if "avx512" not in feature]
    return Target(host.triple, host.cpu, ",".join([*features, "-avx512f"]))


def plan(
    x: Array, y: Array, machine: Target | None = None, *, direct: bool = False, precision: str = "highest"
) -> MatmulPlan:
    """The plan of x @ y, whose batch dimensions broadcast."""
    x, y = _aligned(x, y)
    sides = (MatrixStrides(s[:-2], s[-2], s[-1]) for s in (_strides(x), _strides(y)))
    kind = from_dtype(x.dtype)
    shape = (x.shape[:-2], x.shape[-2], y.shape[-1], x.shape[-1])
    return plan_matmul(*shape, *sides, kind, machine or target.host(), direct=direct, precision=precision)


def write(product: MatmulPlan, result: Sequence[int], prepare: Prepare | None = None) -> str:
    """A kernel that adds each finished element to what is at its place, which `result` gives the strides of."""
    b = Builder()
    with b.kernel(NAME_PLACEHOLDER) as (args, tile, _):
        left, right, out, scratch = (b.argument(args, i) for i in range(4))

        def finish(origin: Sequence[Reg], parts: Sequence[ResultRegister]) -> None:
            start = out
            for index, stride in zip(origin, result, strict=True):
                start = b.gep(start, b.mul(index, stride), product.type)
            for offset, value, mask, *_ in parts:
                by = sum(i * stride for i, stride in zip(offset, result, strict=True))
                at = b.gep(start, by, product.type)
                b.store(b.add(b.load(at, value.type, mask), value), at, mask)

        write_matmul(b, product, left, right, scratch, tile, finish, prepare)
    return b.text()


def multiply(
    x: Array,
    y: Array,
    machine: Target | None = None,
    *,
    direct: bool = False,
    out: Array | None = None,
    order: Sequence[int] | None = None,
    product: MatmulPlan | None = None,
) -> Array:
    """x @ y by the kernel, added to `out` (zeros); its last stride is one element. `order`: of the tiles."""
    machine = machine or target.host()
    product = product or plan(x, y, machine, direct=direct)
    x, y = _aligned(x, y)
    if out is None:
        out = np.zeros((*x.shape[:-1], y.shape[-1]), x.dtype)
    loaded = engine.load([emit_object(machine, write(product, _strides(out)))])
    scratch = np.full(product.scratch + 128, 0xFF, np.uint8)  # NaN in any float type
    start = -scratch.ctypes.data % 64
    table = (ctypes.c_void_p * 4)(x.ctypes.data, y.ctypes.data, out.ctypes.data, scratch.ctypes.data + start)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(loaded.address(NAME_PLACEHOLDER))
    for tile in range(product.tiles) if order is None else order:
        function(ctypes.addressof(table), tile, 0)
    beyond = np.delete(scratch, slice(start, start + product.scratch))
    assert (beyond == 0xFF).all(), "wrote beyond its scratch memory"
    return out


def assert_close(result: Array, x: Array, y: Array) -> None:
    """As near to x @ y as sums of its terms in another order are."""
    wide = np.matmul(x.astype(np.float64), y.astype(np.float64))
    terms = np.matmul(np.abs(x).astype(np.float64), np.abs(y).astype(np.float64))
    limit = 4 * np.finfo(result.dtype).eps * math.sqrt(max(x.shape[-1], 1)) * terms
    assert result.shape == wide.shape
    assert (np.abs(result - wide) <= limit).all()


def _aligned(x: Array, y: Array) -> tuple[Array, Array]:
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return np.broadcast_to(x, batch + x.shape[-2:]), np.broadcast_to(y, batch + y.shape[-2:])


def _strides(x: Array) -> tuple[int, ...]:
    return tuple(stride // x.itemsize for stride in x.strides)
