"""Values that are the same in each call while what a step captured is: masks and positions from before the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from adjoint.compiler.ir.graph import Constant, StateInput, Value
from adjoint.compiler.ir.interpreter import evaluate_equation
from adjoint.compiler.ir.symbolic_size import has_symbols
from adjoint.compiler.trace.guards import MemoryGuard, ValuesGuard, ViewGuard
from adjoint.core.graph.source_location import user_site
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array

CONSTANT_KINDS = "biu"  # truths and integers: floats change from call to call
MAX_CONSTANT_BYTES = 1 << 24  # of each tensor: every call compares them
MAX_EQUATIONS = 100


class CapturedState(Protocol):
    """The part of a tracer that holds what a step captured, and the guards on it."""

    state: list[tuple[Tensor, Array, Value]]
    view_guards: list[ViewGuard | ValuesGuard | MemoryGuard]
    on_location_fixed: Callable[[Tensor], None]

    def adopt(self, tensor: Tensor) -> Value: ...


def find_constant_values(tracer: CapturedState, tensor: Tensor) -> Array | None:
    """The values of a tensor that follow from captured truths and integers alone, which each call compares; else None.

    So a mask from before the step chooses as many elements in each call, until it is written.
    """
    root = tracer.adopt(tensor)
    captured = {symbol: (held, array) for held, array, symbol in tracer.state}
    known: dict[Value, Array] = {}
    used: list[Value] = []
    pending = [root]
    while pending:
        value = pending[-1]
        missing = [v for v in value.operands if v not in known]
        if value in known or (missing and len(known) + len(pending) > MAX_EQUATIONS):
            if value not in known:
                return None
            pending.pop()
        elif missing:
            pending += missing
        elif (values := _values_of(value, captured, known)) is None:
            return None
        else:
            known[value] = values
            used += [value] if value in captured else []
            pending.pop()
    for value in used:
        held, array = captured[value]

        def locate(held: Tensor = held) -> Tensor:
            return held  # not what is then in its place

        value.source = StateInput(locate, value.source.name, None)
        tracer.on_location_fixed(held)
        tracer.view_guards.append(ValuesGuard(held, array.tobytes(), user_site()))
    return known[root]


def _values_of(value: Value, captured: dict[Value, tuple[Tensor, Array]], known: dict[Value, Array]) -> Array | None:
    """The values of an input or of an equation whose operands are known."""
    if isinstance(value.source, Constant):
        array: Array = value.source.array
        return array
    if value.op is None:
        held = captured.get(value) if isinstance(value.source, StateInput) else None
        if held is None or held[1].dtype.kind not in CONSTANT_KINDS or held[1].nbytes > MAX_CONSTANT_BYTES:
            return None
        return held[1].copy()
    if "generator" in value.params or value.dtype.kind not in CONSTANT_KINDS:
        return None
    if has_symbols((value.shape, *value.params.values())):  # a mask made of sizes is another where these are others
        return None
    result: Array = evaluate_equation(value, known)
    return result
