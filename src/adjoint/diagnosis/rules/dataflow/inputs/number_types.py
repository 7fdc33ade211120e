"""Rules on types of numbers: double precision that slips in, and bytes that wrap around."""

from __future__ import annotations

import ast
from types import FrameType

import numpy as np

from adjoint.core.graph.source_location import Site, library_files
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Finding, Place, place_of_frame, place_of_origin
from adjoint.diagnosis.rules.shapes import GraphRule, names_of_operands
from adjoint.diagnosis.watch.events import Backward, caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array, leaves_below, op_name
from adjoint.diagnosis.watch.frames import find_operands
from adjoint.diagnosis.watch.names import describe_data
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.diagnosis.watch.source_lines import line_of, nodes_at

MAX_SUSPECTS = 16  # results of data
READS = frozenset({"index", "gather", "embedding", "take"})  # ops that read elements of their first operand


class DoublePrecision(GraphRule):
    """float64 data among float32 values, which makes all that follows float64."""

    ops = frozenset({"sub", "add", "mul", "div", "squared_error", "where", "maximum", "minimum", "cat", "stack"})
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.of_data: list[tuple[Tensor, Finding]] = []  # float64 results of data alone, that may meet a model later
        self.dataset: object = None
        self.described: set[Place] = set()

    def loader_is_read(self, loader: Operand) -> None:
        """See a pass over a loader begin."""
        self.dataset = getattr(loader, "dataset", None)

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if out.array.dtype != np.float64:
            return
        tensors = [x for x in inputs if is_array(x)]
        single = [x for x in tensors if x.array.dtype == np.float32 and (x.node is not None or x.array.ndim)]
        double = [x for x in tensors if x.array.dtype == np.float64 and x.array.ndim and op_name(x.node) != "cast"]
        if not single or not double:
            return
        place = caller_place()
        if place in self.described:
            return
        self.described.add(place)
        if out.node is None:
            if self.facts.flow.is_open and len(self.of_data) < MAX_SUSPECTS:
                self.of_data.append((out, self._describe(double[0])))
        elif any(x.node is not None for x in single):
            behind = {id(made.out) for made in self.facts.flow.makers_behind(double[0])} | {id(double[0])}
            first = next((finding for made, finding in self.of_data if id(made) in behind), None)
            self.suspect(out, first or self._describe(double[0]))

    def begin_backward(self, backward: Backward) -> None:
        super().begin_backward(backward)
        self.of_data.clear()

    def _describe(self, double: Tensor) -> Finding:
        frame = caller_frame()
        leaves = [leaf.variable for leaf in leaves_below((double,))] if double.node is not None else []
        parameter = next((x for x in leaves if x is not None and x.array.dtype == np.float64), None)
        if parameter is not None:
            text = self.facts.names.name_of_parameter(parameter)
            origin = self.facts.names.origin_of_parameter(parameter)
        else:
            text, origin = self._find_operand(frame, double)
        if origin is not None and origin.text.startswith("for "):
            origin = place_of_sample(self.dataset) or origin
        return Finding(
            "float64",
            origin or place_of_frame(frame),
            text,
            f"float64 {tuple(double.shape)}",
            f"{text} is float64 {tuple(double.shape)}, and makes the float32 result of "
            f"{place_of_frame(frame).site.describe_briefly()} float64: twice the memory and time",
            f"{text}.float(), or dtype=float32 where it is made",
        )

    def _find_operand(self, frame: FrameType, double: Tensor) -> tuple[str, Place | None]:
        """Return the name of the operand, or of the tensor from which it was read, and the line that made it."""
        operands = find_operands(frame)
        x: Operand = double
        while x is not None:
            known = next((each for each in operands if each.value is x), None)
            if known is not None:
                return known.text, place_of_origin(known.origin)
            made = self.facts.flow.maker(x)
            is_read = made is not None and (made.family == "movement" or made.op in READS)
            x = made.tensors[0] if made is not None and is_read and made.tensors else None
        flow = self.facts.flow
        parts = [each for made in flow.makers_behind(double) for each in made.tensors] if flow.is_open else []
        for part in parts:  # the data of which the operand was computed
            if part.node is None and part.array.dtype == np.float64 and flow.maker(part) is None:
                name, place = describe_data(part, frame)
                if place is not None:
                    return name, place
        return names_of_operands(frame, double), None


def place_of_sample(dataset: object) -> Place | None:
    """Return the line of a dataset of the user's that gives a sample."""
    code: Operand = getattr(getattr(type(dataset), "__getitem__", None), "__code__", None)
    if code is None or library_files[code.co_filename]:
        return None
    for function in nodes_at(Place(Site(code.co_filename, code.co_firstlineno, "")), ast.FunctionDef):
        returns = [each for each in ast.walk(function) if isinstance(each, ast.Return)]
        return line_of(code.co_filename, returns[-1]) if returns else None
    return None


class WrappedIntegers(WatchRule):
    """Arithmetic of bytes whose result does not fit: 3 - 5 is 254."""

    ops = frozenset({"sub", "add", "mul"})
    max_passes = CHECKED_PASSES

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if out.array.dtype != np.uint8 or not out.array.size or self.facts.has_found("integer-overflow"):
            return
        a, b = (np.asarray(x.array if isinstance(x, Tensor) else x).astype(np.int32) for x in inputs[:2])
        exact = a - b if op.name == "sub" else a + b if op.name == "add" else a * b
        share = float(np.mean(exact != out.array))
        if share > 0:
            sign = {"sub": "-", "add": "+", "mul": "*"}[op.name]
            problem = f"{sign} of uint8 {tuple(out.shape)} wraps around at 256 in {share:.0%} of its results, from "
            problem += f"{exact.min()} to {exact.max()}"
            self.report(
                "integer-overflow", caller_place(), sign, problem, "convert the bytes first: x.float()", f"{share:.0%}"
            )
