"""The reference executor: a graph, equation by equation, on NumPy. What it gives is what a program must give."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from adjoint.compiler.ir.graph import Constant, Graph, Value
from adjoint.compiler.ir.symbolic_size import concrete_sizes, has_symbols, size_value
from adjoint.core.op.evaluation import evaluate as call
from adjoint.core.runtime.exchange_log import ExchangeTimes, exchanging_at
from adjoint.core.typing import Array, Function, NumpyDtype, Operand

ELEMENTWISE_FAMILIES = ("unary", "binary", "elementwise")


def evaluate(graph: Graph, inputs: dict[Value, Array]) -> list[Array]:
    """The graph's outputs as arrays, from arrays for its inputs (constants are known)."""
    known = dict(inputs)
    for value in graph.inputs_of_kind(Constant):
        known[value] = value.source.array
    for value in graph.equations:
        known[value] = evaluate_equation(value, known)
    return [known[value] for value in graph.outputs]


def evaluate_equation(value: Value, known: dict[Value, Array]) -> Operand:
    """One equation on arrays."""
    with np.errstate(all="ignore"):
        result = call(
            value.op,
            tuple(operand_array(value, i, x, known) for i, x in enumerate(value.inputs)),
            concrete_sizes(value.params) if has_symbols(tuple(value.params.values())) else value.params,
        )
    if value.op.family == "collective":
        return result.copy()  # of memory in which the next exchange may lie
    return result if result.dtype == value.dtype else result.astype(value.dtype)


def operand_array(value: Value, i: int, x: Operand, known: dict[Value, Array]) -> Operand:
    """Input `i` of an equation as an array; a number takes the type in which the op computes, and is no array."""
    if isinstance(x, Value):
        return known[x]
    if x is None or value.op.family not in ELEMENTWISE_FAMILIES:
        return x
    number = literal_value(value, i, size_value(x))
    return np.asarray(number, operand_dtype(value, i))[()]  # ops tell the two apart: see `pow`


def literal_value(value: Value, i: int, x: float) -> float:
    """The number that is input `i` of an elementwise equation, as its type can hold it: integers wrap around."""
    dtype = operand_dtype(value, i)
    return np.asarray(x).astype(dtype).item() if dtype.kind in "iu" else x


def operand_dtype(value: Value, i: int) -> NumpyDtype:
    """The type in which input `i` of an elementwise equation enters: the common one of a binary op, the result's of
    `where`, the operand's own otherwise.
    """
    if value.op.name == "where":
        return value.dtype if i else np.dtype(np.bool_)
    others = value.operands
    if others:
        return others[0].dtype
    return value.dtype


def call_with_note(value: Value, times: ExchangeTimes | None = None) -> Function:
    """Return the NumPy function of an equation; what it raises carries a note of the line that the equation is from.

    `times`: of an exchange, whose calls are to be timed.
    """
    op, params, dtype, origin = value.op, value.params, value.dtype, value.origin
    is_symbolic = has_symbols(tuple(params.values()))

    def compute(*operands: Operand) -> Operand:
        try:
            result = call(op, operands, concrete_sizes(params) if is_symbolic else params)
        except Exception as error:
            if origin is not None:
                error.add_note(f"in the compiled step: {op.name}, from {origin.site}")
            raise
        return result if op.family == "check" or result.dtype == dtype else result.astype(dtype)

    if times is None or origin is None:
        return compute

    def exchange(*operands: Operand) -> Operand:
        start = perf_counter()
        with exchanging_at(origin.site):
            result = compute(*operands)
        times.add_since(start)
        return result

    return exchange
