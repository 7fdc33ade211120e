"""The text of a kernel of elements: the function is traced once for each type, and its equations become one loop."""

from __future__ import annotations

import numpy as np

from adjoint.compiler.ir.graph import Argument, Constant, Graph, Value
from adjoint.compiler.kernels.elementwise import compute
from adjoint.compiler.kernels.small_arrays.entry import ALL_DIMS, UNLIMITED, ArrayOperand, SmallArrayEntry, sweep, text
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.llvm.types import Reg, Type, from_dtype
from adjoint.compiler.passes.simplify import eliminate_dead_code, rewrite
from adjoint.compiler.trace.tracer import Tracer
from adjoint.core.op.elementwise_kernels import ARRAY, NUMBER, SCALAR
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.tensor import wrap
from adjoint.core.typing import Function, NumpyDtype, Operand, Operands, Params

TRACED_SHAPE = (7,)  # of the arrays that stand for those of any shape
LETTERS = {ARRAY: "x", SCALAR: "n", NUMBER: "d"}  # of the entry, for each kind of operand that is none of its constants


def write_elementwise(name: str, function: Function, kinds: Operands, params: Params, written: tuple[int, ...]) -> str:
    """The module of the kernel. Raises ValueError if a part of the function is no equation of elements.

    `written`: the operands that it writes: the result into the first, or what a function without a result writes there.
    """
    variable = [i for i, kind in enumerate(kinds) if kind in LETTERS]
    written = tuple([i for i in written if i in variable])
    targets = [variable.index(i) for i in written]
    graphs = {
        from_dtype(dtype): _trace(function, kinds, params, written, dtype)
        for dtype in map(np.dtype, (np.float32, np.float64))
    }

    letters = "".join(LETTERS[kinds[i]] for i in variable)

    def write(b: Builder, kind: Type, lanes: int, *operands: ArrayOperand | Reg) -> None:
        *given, made = operands
        places = [given[i] for i in targets] or [made]

        def body(index: Reg, mask: Reg | None) -> list[Reg]:
            loaded = [
                b.load(b.gep(x.data, index, kind), kind.of(lanes), mask) if isinstance(x, ArrayOperand) else x
                for x in given
            ]
            for place, value in zip(places, _compute_all(b, graphs[kind], loaded, lanes), strict=True):
                assert isinstance(place, ArrayOperand)
                b.store(value, b.gep(place.data, index, kind), mask)
            return []

        assert isinstance(places[0], ArrayOperand)
        sweep(b, places[0].size, lanes, [], body)

    less, like = ALL_DIMS if written else 0, letters.index("x")
    layout = {"alike": True} if written else {"keeps_order": True}
    return text(name, SmallArrayEntry(letters, write, like=like, less=less, most=UNLIMITED, **layout), host())


def _trace(function: Function, kinds: Operands, params: Params, written: tuple[int, ...], dtype: NumpyDtype) -> Graph:
    """The graph of the function, for arrays of this type: of its result, or of what it writes into operands."""
    tracer = Tracer(function.__name__)
    given: list[Operand] = []
    count = 0
    with ModeScope(
        interpreter=tracer, forward_levels=None, anomaly_detector=None, saved_tensor_hooks=(), recording=False
    ):
        for kind in kinds:
            if kind in LETTERS:
                spec = Spec(TRACED_SHAPE if kind is ARRAY else (), np.dtype(np.float64) if kind is NUMBER else dtype)
                given.append(wrap(tracer.graph.input(spec, Argument(count, f"{count}"))))
                count += 1
            else:
                given.append(kind[0])
        result = function(*given, **params)
        results = [given[i] for i in written] if result is None else [result]
        tracer.graph.outputs = [tracer.adopt(each) for each in results]
    return eliminate_dead_code(rewrite(tracer.graph))


def _compute_all(b: Builder, graph: Graph, loaded: list[Reg], lanes: int) -> list[Reg]:
    """The registers of the results, from those of the operands."""
    found: dict[Value, Reg] = {v: loaded[v.source.number] for v in graph.inputs_of_kind(Argument)}
    for v in graph.inputs_of_kind(Constant):
        if v.size != 1:
            raise ValueError(f"no kernel of elements takes {v}")
        found[v] = b.constant(v.source.array.item(), from_dtype(v.dtype).of(lanes))
    for v in graph.equations:
        if v.op.family == "full":
            found[v] = b.constant(v.dtype.type(v.params["value"]).item(), from_dtype(v.dtype).of(lanes))
        elif v.op.family in ("expand", "movement") and v.op.name == "expand" and v.inputs[0].size == 1:
            found[v] = found[v.inputs[0]]
        elif v.op.scalar is None:
            raise ValueError(f"no kernel of elements computes {v}")
        else:
            found[v] = compute(b, v, [found[x] for x in v.inputs if isinstance(x, Value)])
    return [b.broadcast(found[out], lanes) for out in graph.outputs]
