"""The values that symbols have in the call that is traced: computed by NumPy where the step's Python asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from adjoint.compiler.ir.graph import Constant, ScalarInput, Setting, Value
from adjoint.compiler.ir.interpreter import evaluate_equation
from adjoint.compiler.trace.untraced import without_frame_tracing
from adjoint.core.runtime.mode import tracing_paused
from adjoint.core.typing import Array, Operand

if TYPE_CHECKING:
    from adjoint.compiler.trace.tracer import Tracer


class TracedValues:
    """Arrays for the values of a graph that grows: only what leads to the values that are asked for is computed.

    Draws take their numbers from the generators, in the order of the program; `restore` takes these back, as the
    program is going to draw the same numbers.
    """

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self._known: dict[Value, Operand] = {}
        self._states = 0  # how many of the tracer's are known
        self._drawn = 0  # up to which equation draws have taken place
        self._places: list[tuple[Operand, Array]] = []  # generators, and where they were

    def array(self, value: Value) -> Array:
        """The value's array."""
        if value not in self._known:
            with tracing_paused():
                self._evaluate(value)
        found: Array = self._known[value]
        return found

    def set_array(self, value: Value, array: Array) -> None:
        """Let an input of the graph have this array."""
        self._known[value] = array

    def restore(self) -> None:
        """Put the generators back to where they were."""
        with tracing_paused():
            for generator, place in self._places:
                generator.load_state_array(place)
        self._places.clear()

    @without_frame_tracing
    def _evaluate(self, value: Value) -> None:
        known, tracer = self._known, self.tracer
        for _, array, symbol in tracer.state[self._states :]:
            known.setdefault(symbol, array)
        self._states = len(tracer.state)
        equations = tracer.graph.equations
        draws = [v for v in equations[self._drawn :] if v.op.effect]
        self._drawn = len(equations)
        wanted, stack = set[Value](), [value, *draws]
        while stack:
            v = stack.pop()
            if v in known or v in wanted:
                continue
            if v.op is None:
                known[v] = self._input_array(v)
            else:
                wanted.add(v)
                stack.extend(v.operands)
        for v in equations:
            if v in wanted:
                self.save_place(v.params.get("generator"))
                known[v] = evaluate_equation(v, known)

    def save_place(self, generator: Operand) -> None:
        """Remember where a generator is."""
        if generator is not None and all(generator is not held for held, _ in self._places):
            self._places.append((generator, generator.place()))

    def _input_array(self, v: Value) -> Array:
        source = v.source
        if isinstance(source, Constant):
            return source.array
        if isinstance(source, Setting):
            number = source.read()
        else:
            assert isinstance(source, ScalarInput), f"an input without a value: {source}"
            number = self.tracer.arithmetic.evaluate(source.name, (source.name,))
        return np.asarray(getattr(number, "value", number), v.dtype)
