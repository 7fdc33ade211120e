"""Kernels that serve every size of a dimension: those of a function, run for one size after another."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.compiler.cache.object_cache import compile_kernel
from adjoint.compiler.ir.graph import Constant, Graph, Value
from adjoint.compiler.ir.interpreter import evaluate_equation
from adjoint.compiler.ir.symbolic_size import evaluate_size, ignore_guard
from adjoint.compiler.kernels.lowerings import lower_all
from adjoint.compiler.llvm.jit.engine import load
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.passes.fusion import Fusion, fuse
from adjoint.compiler.passes.materialize import materialize_views
from adjoint.compiler.passes.memory_plan import aligned_bytes
from adjoint.compiler.passes.simplify import rewrite
from adjoint.compiler.trace.tracer import Tracer


def trace_with_sizes(function: Callable[..., Any], arrays: Sequence[Any], dynamic: Sequence[Sequence[int]]) -> Graph:
    """The graph of a function of tensors, for each of which the dimensions in `dynamic` are symbols."""
    tracer = Tracer("test")
    tensors = [ad.from_numpy(a.copy()) for a in arrays]
    for i, (tensor, dims) in enumerate(zip(tensors, dynamic, strict=True)):
        tracer.bind_argument(tensor, i, f"{i}", i, dims)
    try:
        out = tracer.trace(function, tuple(tensors), {})
        outputs = [out] if isinstance(out, ad.Tensor) else list(out)
        tracer.graph.outputs = [tracer.adopt(t) for t in outputs]
    finally:
        tracer.restore()
    assert tracer.graph.sizes is not None
    tracer.graph.sizes.is_traced = True
    tracer.graph.sizes.on_guard = ignore_guard  # the tracer, which was told until now, goes
    return tracer.graph


class SizedKernels:
    """The kernels of a function of tensors, to be called for arrays whose sizes differ along `dynamic` dimensions."""

    def __init__(
        self,
        function: Callable[..., Any],
        arrays: Sequence[Any],
        dynamic: Sequence[Sequence[int]],
    ) -> None:
        traced = trace_with_sizes(function, arrays, dynamic)
        self.sizes = traced.sizes
        graph = materialize_views(rewrite(traced))
        self.fusion: Fusion = fuse(graph)
        self.graph = self.fusion.graph
        self.kernels = lower_all(self.fusion, host())
        self._engine = load([compile_kernel(code) for code in {k.name: k.code for k in self.kernels.values()}.values()])

    @property
    def guards(self) -> list[str]:
        """The guards on sizes, with `not` before those that are false."""
        assert self.sizes is not None
        return [code if answer else f"not {code}" for code, answer in self.sizes.guards.items()]

    def __call__(self, *arrays: Any, over: int | None = None) -> list[Any]:
        """The outputs for these arrays; the first of them written `over` one of these, if that is given."""
        symbols = dict(self._find_symbols(arrays))
        assert self.sizes is not None
        for code, answer in self.sizes.guards.items():
            assert eval(code, dict(symbols)) is answer, f"the kernels are for sizes with {self.guards}"
        known: dict[Value, Any] = {v: np.ascontiguousarray(a) for v, a in zip(self.graph.inputs, arrays, strict=False)}
        if over is not None:
            known[self.graph.outputs[0]] = known[self.graph.inputs[over]]
        for v in self.graph.inputs_of_kind(Constant):
            known[v] = v.source.array
        for group in self.fusion.order:
            if group.call:
                self._evaluate(group.equations, known)
                continue
            kernel = self.kernels[group]
            for v in kernel.arguments:
                if v not in known:
                    shape = [evaluate_size(n, symbols) for n in v.shape]
                    filler = 7 if v.dtype.kind in "iub" else np.nan
                    room = np.full(prod(shape) + 64, filler, v.dtype)
                    known[v] = room[: prod(shape)].reshape(shape)
            scratch = aligned_bytes(max(evaluate_size(kernel.scratch, symbols), 1))
            table = [*reversed(symbols.values()), *(known[v].ctypes.data for v in kernel.arguments)]
            table += [scratch.ctypes.data] if kernel.scratch else []
            table += [evaluate_size(n, symbols) for n in kernel.numbers]
            call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
                self._engine.address(kernel.name)
            )
            words = (ctypes.c_int64 * max(len(table), 1))(*table)
            for tile in reversed(range(evaluate_size(kernel.tiles, symbols))):
                call(ctypes.addressof(words) + 8 * len(symbols), tile, 0)
            for v in kernel.arguments:
                rest = known[v].base
                if rest is not None and v.dtype.kind == "f" and v.op is not None:
                    assert np.isnan(rest[-64:]).all(), "a kernel wrote beyond its array"
        return [known[v] for v in self.graph.outputs]

    def _evaluate(self, equations: Sequence[Value], known: dict[Value, Any]) -> None:
        for value in equations:
            known[value] = evaluate_equation(value, known)

    def _find_symbols(self, arrays: Sequence[Any]) -> Any:
        for v, array in zip(self.graph.inputs, arrays, strict=False):
            for n, size in zip(v.shape, array.shape, strict=True):
                if type(n) is not int:
                    yield repr(n), size


def assert_same_bits_for(
    sizes: Sequence[int],
    function: Callable[..., Any],
    make: Callable[[int], Sequence[Any]],
    dynamic: Sequence[Sequence[int]],
    traced: int = 57,
) -> SizedKernels:
    """Check that kernels made once give, for each size, the bits of those made for it; returns them."""
    general = SizedKernels(function, make(traced), dynamic)
    for n in sizes:
        arrays = make(n)
        fixed = SizedKernels(function, arrays, [()] * len(arrays))
        for ours, theirs in zip(general(*arrays), fixed(*arrays), strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=f"for {n}")
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours.view(f"u{ours.itemsize}"), theirs.view(f"u{ours.itemsize}"), f"for {n}")
    return general
