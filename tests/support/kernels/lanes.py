"""Runs builder expressions over NumPy arrays: what every test of the builder does."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit import engine, target
from adjoint.compiler.llvm.types import I64, Reg, Type, from_dtype

Array = np.ndarray[Any, Any]
Expression = Callable[..., Reg]

GUARD = 64  # elements around every result, which no kernel may touch


def native_lanes(dtype: Any) -> int:
    return target.host().lanes(from_dtype(dtype))


def evaluate(expressions: Mapping[str, Expression], inputs: Sequence[Array], lanes: int) -> dict[str, Array]:
    """Each expression of the inputs' elements, by kernels with a masked tail; inputs are flat and of one length."""
    text, results = write(expressions, [from_dtype(x.dtype) for x in inputs], lanes, target.host())
    loaded = engine.load([target.host().emit_object(text)])
    size = inputs[0].size
    outputs = {}
    for name, type in results.items():
        guarded = np.full(size + 2 * GUARD, 93).astype(dtype_of(type))
        result = guarded[GUARD : GUARD + size]
        call(loaded, f"kernel_{name}", [*inputs, result, np.array([size])])
        edges = np.concatenate([guarded[:GUARD], guarded[GUARD + size :]])
        assert np.array_equal(edges, np.full(2 * GUARD, 93).astype(edges.dtype)), f"{name} wrote beyond its array"
        outputs[name] = result
    return outputs


def write(
    expressions: Mapping[str, Expression], types: Sequence[Type], lanes: int, machine: target.Target | None = None
) -> tuple[str, dict[str, Type]]:
    b = Builder(machine)
    results = {}
    for name, expression in expressions.items():
        with b.kernel(f"kernel_{name}") as (args, _, _):
            pointers = [b.argument(args, i) for i in range(len(types) + 1)]
            size = b.load(b.argument(args, len(types) + 1), I64)
            with b.loop(0, size, step=lanes) as loop:
                mask = b.lane_mask(b.sub(size, loop.index), lanes)
                values = [
                    b.load(b.gep(pointer, loop.index, type), type.of(lanes), mask)
                    for pointer, type in zip(pointers, types, strict=False)
                ]
                value = expression(b, *values)
                results[name] = value.type.scalar
                b.store(value, b.gep(pointers[-1], loop.index, value.type), mask)
    return b.text(), results


def call(loaded: engine.Engine, name: str, arrays: Sequence[Array], tile: int = 0, thread: int = 0) -> None:
    """Call a kernel with the addresses of the arrays as its table of arguments."""
    table = (ctypes.c_void_p * len(arrays))(*[array.ctypes.data for array in arrays])
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(loaded.address(name))
    function(ctypes.addressof(table), tile, thread)


def run(write_kernel: Callable[[Builder, Reg], object], *arrays: Array, tile: int = 0, thread: int = 0) -> None:
    """Build one kernel from its body, given the table of arguments, and call it."""
    b = Builder()
    with b.kernel("kernel") as (args, _, _):
        write_kernel(b, args)
    loaded = engine.load([target.host().emit_object(b.text())])
    call(loaded, "kernel", arrays, tile, thread)


def dtype_of(type: Type) -> np.dtype[Any]:
    return np.dtype(bool) if type.is_bool else np.dtype(f"{type.kind}{type.itemsize}")


def same_bits(x: Array, y: Array) -> bool:
    """Equal dtypes and equal bits, but for the bits of NaN."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind != "f":
        return bool(np.array_equal(x, y))
    both_nan = np.isnan(x) & np.isnan(y)
    return bool((both_nan | ((x == y) & (np.signbit(x) == np.signbit(y)))).all())


def different(x: Array, y: Array, *inputs: Array) -> str:
    """The first few places where two arrays differ, for a failing assertion to show."""
    at = [i for i in range(x.size) if not same_bits(x[i : i + 1], y[i : i + 1])][:4]
    return "; ".join(f"of {[v[i] for v in inputs]} got {x[i]!r} for {y[i]!r}" for i in at) or f"{x.dtype} for {y.dtype}"
