"""Kernels for eager calls: one function of arrays, traced, fused and lowered once for each set of shapes."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from adjoint.compiler.bind import Binding
from adjoint.compiler.bounds import checked
from adjoint.compiler.fuse import Fusion
from adjoint.compiler.graph import Argument, Graph
from adjoint.compiler.kernels.lower import lower_all
from adjoint.compiler.kernels.streams.eager import Drawer
from adjoint.compiler.layout import lay_out
from adjoint.compiler.llvm.target import host
from adjoint.compiler.outcome import Outcome
from adjoint.compiler.placement import place
from adjoint.compiler.rewrite import rewrite, without_dead
from adjoint.compiler.runtime.entry import Segment
from adjoint.compiler.trace import Tracer
from adjoint.core.mode import Scope
from adjoint.core.native import Native, Operand, source
from adjoint.core.spec import Spec
from adjoint.core.tensor import Tensor, wrap
from adjoint.ops.movement import permute

source.drawer = Drawer
SPARE = 4  # bound kernels kept for threads that call at once


def make(native: Native, arguments: list[Any], params: dict[str, Any]) -> Callable[[list[Any]], Any] | None:
    """What computes the function on arrays such as these; None if a part of it would be left to NumPy.

    `arguments`: an `Operand` for each array, and the others as they are.
    """
    if not all(_has_kernels(x.dtype) for x in arguments if type(x) is Operand):
        return None
    try:
        return _compiled(native, arguments, params)
    except Exception:
        if source.strict:
            raise
        return None


_users: set[Native] = set()


@atexit.register
def _forget() -> None:
    """Let go of all kernels while what they are freed with is still there."""
    source.enabled = False
    for native in _users:
        native.kernels.clear()


def _has_kernels(dtype: np.dtype[Any]) -> bool:
    return bool(dtype.isnative and (dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize in (4, 8))))


def _compiled(native: Native, arguments: list[Any], params: dict[str, Any]) -> Callable[[list[Any]], Any] | None:
    graph, several = _traced(native, arguments, params)
    graph = without_dead(checked(rewrite(graph)))
    operands = [i for i, x in enumerate(arguments) if type(x) is Operand]
    outcome = Outcome(len(operands))
    symbols = {operands[v.source.number]: v for v in graph.of_kind(Argument)}
    written = [symbols[i] for i in native.written if i in symbols]
    count = len(graph.outputs) - len(written)
    outcome.results = graph.outputs[:count]
    outcome.writes = list(zip(written, graph.outputs[count:], strict=True))
    graph = lay_out(graph)
    outcome.follow(graph.outputs)
    graph, late = place(graph, written)
    outcome.follow(graph.outputs)
    graph.verify()
    fusion = Fusion(graph, late)
    if any(group.call and group.equations[0].op.family != "check" for group in fusion.order):
        return None
    kernel = EagerKernel(graph, fusion, outcome, several)
    _users.add(native)
    return kernel if kernel.usable else None


def _traced(native: Native, arguments: list[Any], params: dict[str, Any]) -> tuple[Graph, bool]:
    """The function's graph: outputs are its results, then what it wrote; and whether there are several results."""
    tracer = Tracer(native.name)
    given: list[Any] = []
    with Scope(tracer=tracer, duals=None, watcher=None, packers=(), recording=False):
        number = 0
        for x in arguments:
            if type(x) is Operand:
                given.append(_operand(tracer, x, number))
                number += 1
            else:
                given.append(x)
        result = native.function(*given, **params)
        results = result if type(result) is tuple else () if result is None else (result,)
        outputs = [tracer.adopt(r) for r in results]
        outputs += [tracer.adopt(given[i]) for i in native.written if type(arguments[i]) is Operand]
    tracer.graph.outputs = outputs
    return tracer.graph, type(result) is tuple


def _operand(tracer: Tracer, x: Operand, number: int) -> Tensor:
    shape = x.shape if x.order is None else tuple(x.shape[d] for d in x.order)
    tensor: Tensor = wrap(tracer.graph.input(Spec(shape, x.dtype), Argument(number, f"{number}")))
    if x.order is None:
        return tensor
    moved: Tensor = permute(tensor, axes=tuple(x.order.index(d) for d in range(len(shape))))
    return moved


class Bound(NamedTuple):
    """Kernels with memory of their own: what one call at a time uses."""

    segment: Segment
    places: list[int]  # of the arrays that it takes, among the operands and then the results
    in_place: bool  # all that is written


class EagerKernel:
    """A function of arrays in native code. Any number of threads may call it."""

    __slots__ = ("_bind", "_several", "_spare", "_specs")

    def __init__(self, graph: Graph, fusion: Fusion, outcome: Outcome, several: bool) -> None:
        kernels = lower_all(fusion, host())
        self._bind: Callable[[], Bound] = lambda: _bound(Binding(graph, fusion, kernels, outcome))
        self._specs = [(v.shape, v.dtype) for v in outcome.results]
        self._several = several
        self._spare = [self._bind()]

    @property
    def usable(self) -> bool:
        """True if what is written takes its new values where it lies."""
        return self._spare[0].in_place

    def __call__(self, operands: list[Any]) -> Any:
        """The results in new arrays, and what is written in place; None if a check failed: NumPy says which."""
        operands = [x if x.flags.c_contiguous and x.flags.aligned else x.copy() for x in operands]
        made = [np.empty(shape, dtype) for shape, dtype in self._specs]
        arrays = (*operands, *made)
        try:
            bound = self._spare.pop()  # in one step, whatever other threads do
        except IndexError:
            bound = self._bind()
        failed = bound.segment.call(*[arrays[i] for i in bound.places])
        if len(self._spare) < SPARE:
            self._spare.append(bound)
        if failed is not None:
            return None
        return made[0] if len(made) == 1 and not self._several else tuple(made)


def _bound(binding: Binding) -> Bound:
    operands = binding.outcome.arguments
    places = {f"a{i}": i for i in range(operands)}
    places.update((name, operands + i) for i, name in enumerate(binding.result_names))
    segment, names = binding.segment(binding.fusion.order)
    return Bound(segment, [places[name] for name in names], not binding.copied_out)
