"""Rules on metrics: predictions that meet all labels, the best sample for the best class, scores for classes."""

from __future__ import annotations

import numpy as np

from adjoint.core.graph.source_location import library_files
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Finding, place_of_frame
from adjoint.diagnosis.rules.shapes import names_of_operands
from adjoint.diagnosis.watch.events import Backward, caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.frames import find_library_call
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule

MAX_PASSES = 4  # in which metrics are looked at


class AllPairsInMetric(WatchRule):
    """(N, 1) == (N,) in an accuracy: every prediction meets every label."""

    ops = frozenset({"eq", "ne"})

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        a, b = inputs[:2]
        if out.array.ndim != 2 or not (is_array(a) and is_array(b)):
            return
        first, second = a.array.shape, b.array.shape
        n = out.array.shape[0]
        if n < 4 or {first, second} != {(n, 1), (n,)} or np.may_share_memory(a.array, b.array):
            return
        frame = caller_frame()
        if library_files[frame.f_code.co_filename] or np.array_equal(a.array.ravel(), b.array.ravel()):
            return
        text, sign = names_of_operands(frame, a, b), "==" if op.name == "eq" else "!="
        problem = f"{sign} broadcasts {text}, {first} and {second}, to {(n, n)}: every prediction meets every label"
        advice = "give both the same shape: squeeze(1) of the one"
        self.report("broadcast-in-metric", place_of_frame(frame), sign, problem, advice, f"{first} and {second}")


class MetricChoice(WatchRule):
    """The largest score over the batch, where that over the classes was meant, and scores compared with classes."""

    ops = frozenset({"argmax", "leading", "eq"})
    max_passes = MAX_PASSES + 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.logits: Operand = None  # the values of the last logits (N, C)
        self.found: tuple[Operand, Finding] | None = None  # over dimension 0 of values

    def see_call(self, call: LibraryCall) -> None:
        x = call.tensor("input")
        if call.name == "cross_entropy" and x is not None and x.array.ndim == 2:
            self.logits = x.array
            if self.found is not None and self.found[0] is x.array:
                self.facts.report.add(self.found[1])

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if self.facts.iteration > MAX_PASSES:
            return
        if op.name in ("argmax", "leading"):
            self._check_dimension()
        elif len(inputs) > 1 and is_array(inputs[0]) and is_array(inputs[1]):
            scores, labels = inputs[:2] if inputs[0].array.dtype.kind == "f" else inputs[1::-1]
            self._check_scores(scores, labels)

    def _check_dimension(self) -> None:
        frame = find_library_call("argmax", "max", "topk")
        x = None if frame is None else frame.f_locals.get("input")
        if frame is None or not isinstance(x, Tensor) or x.array.ndim != 2 or min(x.array.shape) < 2:
            return
        if frame.f_locals.get("dim") in (0, -2):
            name, shape = frame.f_code.co_name, tuple(x.shape)
            problem = (
                f"{name} of the logits {shape} is over dimension 0: it gives the best sample of each class, and not "
            )
            problem += "the best class of each sample"
            finding = Finding(
                "argmax-dimension",
                caller_place(),
                name,
                f"dim=0 of {shape}",
                problem,
                f"{name}({'k, ' if name == 'topk' else ''}dim=1)",
            )
            self.found = x.array, finding
            if self.logits is x.array:
                self.facts.report.add(finding)

    def _check_scores(self, scores: Tensor, labels: Tensor) -> None:
        a, b = scores.array, labels.array
        if a.dtype.kind != "f" or b.dtype.kind not in "iu" or a.shape != b.shape or a.size < MIN_LABELS:
            return
        frame = caller_frame()
        if scores.node is not None and not library_files[frame.f_code.co_filename] and (a != np.round(a)).all():
            text = names_of_operands(frame, scores, labels)
            problem = f"== compares {text}: scores such as {a.flat[0]:.3g} with classes such as {b.flat[0]}, which are "
            problem += "never equal"
            advice = "take the index of the largest score: out.argmax(1), or the second result of max"
            self.report("score-as-class", place_of_frame(frame), "==", problem, advice, f"{a.flat[0]:.3g}")

    def begin_backward(self, backward: Backward) -> None:
        self.found = None


MIN_LABELS = 4
