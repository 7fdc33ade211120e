"""Rule on values: the first NaN, or infinity, and the line that made it."""

from __future__ import annotations

import ast
import math
from types import FrameType

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Finding, Place, place_of_frame
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import Backward, OptimizerStep, caller_frame
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.frames import find_expression, find_library_call, find_operands
from adjoint.diagnosis.watch.names import origin_of_name
from adjoint.diagnosis.watch.rule import WatchRule

STEEP = frozenset({"sqrt", "rsqrt", "log", "pow", "norm", "vector_norm", "div", "acos", "asin"})
EXPLODED = 1e3  # root mean square of a gradient by itself
POLES = frozenset({"log", "log2", "log10", "log1p", "div", "rsqrt", "reciprocal"})  # that are infinite at one place
SMALL_SIZE = 4096


class FirstNaN(WatchRule):
    """The line that made the first NaN or infinity of a loss, or an op whose gradient is infinite."""

    sees_every_step = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.first: Finding | None = None
        self.first_infinity: Finding | None = None
        self.made_infinity = ""  # the op
        self.steep: Finding | None = None
        self.is_confirmed = False
        self.first_size = 0.0  # of the largest gradient of the first step

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        array = out.array
        if array.dtype.kind != "f" or self.first is not None:
            return
        if op.name in STEEP and out.node is not None and self.steep is None:
            self._check_steepness(op, inputs, out)
        if is_finite(array):
            return
        has_nan = bool(np.isnan(array).any())
        if not has_nan and self.first_infinity is not None:
            return
        arrays = [x.array for x in inputs if is_array(x) and x.array.dtype.kind == "f"]
        if any((np.isnan if has_nan else np.isinf)(array).any() for array in arrays):
            return
        is_earlier = has_nan and self.first_infinity is not None and any(np.isinf(array).any() for array in arrays)
        if is_earlier and self.made_infinity in POLES:
            self.first = self.first_infinity
            return
        found = self._describe(op, inputs, out, "NaN" if has_nan else "infinity")
        if has_nan:
            self.first = found
        else:
            self.first_infinity, self.made_infinity = found, op.name

    def _describe(self, op: Op, inputs: Operands, out: Tensor, what: str) -> Finding:
        frame = caller_frame()
        named = _describe_operands(frame, inputs)
        cause, advice = advise(op, inputs)
        deviation = find_library_call("std", "var")
        called = op.name if deviation is None else deviation.f_code.co_name
        return Finding(
            "nan",
            place_of_frame(frame),
            f"{called} of {named}",
            what,
            f"{called} makes the first {what}, of {named}{cause}",
            advice,
        )

    def _check_steepness(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if not is_array(x) or x.node is None or x.array.size > SMALL_SIZE:
            return
        if op.name in {"div", "pow", "log"} and not (op.name == "pow" and _exponent(inputs) < 1):
            return
        pole = 1 if op.name in ("acos", "asin") else 0
        if (np.abs(out.array if "norm" in op.name else x.array) == pole).any():
            frame = caller_frame()
            named = _describe_operands(frame, inputs[:1])
            self.steep = Finding(
                "nan",
                place_of_frame(frame),
                f"{op.name} of {named}",
                str(pole),
                f"the gradient of {op.name} is infinite at {pole}, which {named or 'its operand'} has; a NaN follows "
                "in backward",
                ADVICE[op.name] if pole else "add a small eps to its operand",
            )

    def begin_backward(self, backward: Backward) -> None:
        if backward.loss is not None and not math.isfinite(backward.loss):
            self._confirm(self.first or self.first_infinity or self._find_variable())

    def _find_variable(self) -> Finding | None:
        """Return the first variable of the user's function that has a NaN, where no op was seen to make it."""
        if self.is_confirmed or not all(is_finite(p.array) for p in self._parameters()):
            return None
        frame = caller_frame()
        found: list[tuple[int, str, Operand, Place]] = [
            (place.site.line, name, x, place)
            for name, x in frame.f_locals.items()
            if is_array(x) and x.array.dtype.kind == "f" and not is_finite(x.array)
            for place in [origin_of_name(name, frame)]
            if place is not None
        ]
        if not found:
            return None
        _, name, x, place = min(found, key=lambda each: each[:2])
        count = int(np.count_nonzero(~np.isfinite(x.array)))
        what = f"{count} of {pluralize(x.array.size, 'value')} of {name} {tuple(x.shape)}"
        is_deviation = x.array.size == 1 and any(text in place.text for text in (".std(", ".var("))
        if is_deviation:
            cause, advice = "the deviation of one value is NaN", f"leave {name} as it is where it has one value"
        elif x.node is None:
            cause, advice = "the data has them", f"torch.nan_to_num({name}), or leave such samples out"
        else:
            cause, advice = "the loss has them from there", "look at its operands: a log, root or quotient at 0"
        problem = f"{what} are NaN or infinite: {cause}"
        return Finding("nan", place, name, str(count), problem, advice)

    def _parameters(self) -> list[Operand]:
        records = self.facts.optimizers.values()
        return [p for record in records for p in record.parameters() if is_array(p)]

    def before_step(self, step: OptimizerStep) -> None:
        if not step.number:
            sizes = [size for size in step.sizes.values() if size is not None and math.isfinite(size)]
            self.first_size = max(self.first_size, *sizes, 0.0)
        if not self.is_confirmed and any(size is not None and math.isnan(size) for size in step.sizes.values()):
            self._confirm(self.steep or self.first or self.first_infinity)

    def finish(self) -> None:
        if not self.is_confirmed and not all(is_finite(p.array) for p in self._parameters()):
            self._confirm(self.first or self.first_infinity)

    def _confirm(self, finding: Finding | None) -> None:
        # where steps diverged before, the rate is to blame, and not the op that made the first NaN
        losses = [loss for loss in self.facts.losses() if math.isfinite(loss)]
        is_cause = len(losses) < 2 or abs(losses[-1]) < 1e3 * (abs(losses[0]) + 1e-3)
        if losses and self.first_size > EXPLODED and finding is not self.steep:
            is_cause = False  # gradients that exploded before, which is a finding of its own
        if finding is not None and not self.is_confirmed and is_cause:
            self.facts.report.add(finding)
        self.is_confirmed = True


ADVICE = {
    "log": "keep its operand positive: clamp(min=1e-8), or a function for logits such as log_softmax",
    **dict.fromkeys(("log2", "log10"), "keep its operand positive: clamp(min=1e-8)"),
    "log1p": "keep its operand above -1: clamp(min=0)",
    **dict.fromkeys(("acos", "asin"), "keep its operand inside of -1 to 1: clamp(-0.999, 0.999)"),
    "div": "keep the divisor from 0: add a small eps",
    "sqrt": "keep its operand positive: add a small eps",
    "exp": "limit its operand, or use logsumexp or softmax",
    "pow": "keep its operand positive",
}


def advise(op: Op, inputs: Operands) -> tuple[str, str]:
    """Return why an op gave something that is not finite, and what to do."""
    x = inputs[0]
    if op.name == "div" and find_library_call("std", "var") is not None:
        return ": the deviation of one value", "take std() over more than one value, or std(correction=0)"
    if op.name in ("softmax", "log_softmax") and is_array(x):
        masked = np.isneginf(x.array).all(axis=-1)
        if masked.any():
            told = f", in which {pluralize(int(masked.sum()), 'row')} of {masked.size} are -inf throughout"
            return told, "leave a key in each row, or mask with a finite number such as -1e9"
    call = find_library_call("kl_div")
    target: Operand = None if call is None else call.f_locals.get("target")
    if call is not None and is_array(target) and (target.array < 0).any() and not call.f_locals.get("log_target"):
        share = f"{(target.array < 0).mean():.0%}"
        told = f": the target of kl_div {tuple(target.shape)} is negative in {share}, so it is no probability"
        return told, "softmax for the target: F.kl_div(log_softmax(x, 1), softmax(t, 1)), or log_target=True for logs"
    return "", ADVICE.get(op.name, "look at the operands: a smaller learning rate, or a check of the data")


def _exponent(inputs: Operands) -> float:
    given = inputs[1]
    if isinstance(given, Tensor):
        return float(given.array.item()) if is_array(given) and given.array.size == 1 else math.inf
    return float(given) if isinstance(given, (int, float)) else math.inf


def _describe_operands(frame: FrameType, inputs: Operands) -> str:
    operands, found = find_operands(frame), find_expression(frame)
    node = None if found is None else found[1]
    texts = [text_of(node.left), text_of(node.right)] if isinstance(node, ast.BinOp) else []
    told = []
    for i, x in enumerate(inputs):
        if is_array(x) and x.array.dtype.kind == "f" and x.array.size:
            text = texts[i] if i < len(texts) == len(inputs) else "its operand"
            name = next((each.text for each in operands if each.value is x), text)
            finite = x.array[np.isfinite(x.array)]
            extent = f"{finite.min():.3g} to {finite.max():.3g}" if finite.size else "nothing finite"
            told.append(f"{name} {tuple(x.shape)} of {extent}")
    return " and ".join(told)


def is_finite(array: Operand) -> bool:
    """Return whether all elements are finite; fast where their squares are."""
    if array.dtype.itemsize >= 4 and array.flags.c_contiguous and math.isfinite(np.vdot(array, array)):
        return True
    return bool(np.isfinite(array).all())
