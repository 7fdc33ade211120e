"""Rules on values: the first NaN, gradients that vanish or explode, units that never fire."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from types import FrameType

import numpy as np

from adjoint.core.graph.node import Node
from adjoint.core.graph.source_location import InstructionLocation, library_files
from adjoint.core.op.op import Op
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Finding, Place, place_of_frame
from adjoint.diagnosis.rules.missing_gradients import WEAK_CUTS
from adjoint.diagnosis.rules.writes import instruction_of_write, place_of_write
from adjoint.diagnosis.watch.events import Backward, OptimizerStep, caller_frame, caller_place, root_mean_square
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.frames import find_library_call, find_operands
from adjoint.diagnosis.watch.names import origin_of_name
from adjoint.diagnosis.watch.rule import WatchRule

STEEP = frozenset({"sqrt", "rsqrt", "log", "pow", "norm", "vector_norm", "div", "acos", "asin"})
VANISHED, EXPLODED = 1e-6, 1e3  # root mean squares of gradients: against the largest, and by themselves
REMEDY_FOR_DEPTH = "use ReLU in place of sigmoid or tanh, normalization layers, skip connections, or fewer layers"
MIN_GAIN, MAX_GAIN = 0.05, 3.0  # of the first weights: what they multiply a value by; usual are 0.5 to 1.5
MAX_WRITTEN_GAIN = 1.5  # of weights that a line of the program has written
CLAMPED_SHARE = 0.95  # of a value at the limits of a clamp, from which on it is to blame
CAUSES = (
    "nan",
    "zero-grad-forgotten",
    "one-class",
    "mask-after-softmax",
    "constant-input",
    "target-with-gradient",
    "mask-inverted",
    "scaled-gradients",
)
CAUSES_OF_ZEROS = (
    "joined-along-batch", "dead-units", "saturated-units", "zero-grad-before-step",
    "constant-weights", "norm-of-one-value", "logits-too-large", "state-reset",
)
POLES = frozenset({"log", "log2", "log10", "log1p", "div", "rsqrt", "reciprocal"})  # that are infinite at one place
SMALL_SIZE = 4096
MAX_WALKED = 500  # nodes behind a loss that are looked at


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
    operands = find_operands(frame)
    told = []
    for x in inputs:
        if is_array(x) and x.array.dtype.kind == "f" and x.array.size:
            name = next((each.text for each in operands if each.value is x), "its operand")
            finite = x.array[np.isfinite(x.array)]
            extent = f"{finite.min():.3g} to {finite.max():.3g}" if finite.size else "nothing finite"
            told.append(f"{name} {tuple(x.shape)} of {extent}")
    return " and ".join(told)


def is_finite(array: Operand) -> bool:
    """Return whether all elements are finite; fast where their squares are."""
    if array.dtype.itemsize >= 4 and array.flags.c_contiguous and math.isfinite(np.vdot(array, array)):
        return True
    return bool(np.isfinite(array).all())


class GradientSizes(WatchRule):
    """Gradients that vanish or explode on the way back, by module."""

    ops = frozenset({"round", "sign", "floor", "ceil", "trunc", "clamp_range"})  # whose gradient is 0 everywhere

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.flat_place: Place | None = None  # of such an op between the parameters and the loss
        self.sizes: dict[int, tuple[Operand, list[float]]] = {}
        self.totals: list[float] = []
        self.gains: dict[int, tuple[float, InstructionLocation | None]] = {}  # of the first weights, and who wrote them

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if op.name == "clamp_range" and (
            self.facts.iteration or out.array.size < 8 or (inputs[0].array != out.array).mean() < CLAMPED_SHARE
        ):
            return
        if self.flat_place is None and out.node is not None and not library_files[caller_frame().f_code.co_filename]:
            self.flat_place = caller_place()

    def begin_backward(self, backward: Backward) -> None:
        if self.facts.flow.is_open and self.flat_place is None:
            self._find_constant()
        if self.flat_place is None and self.totals and not any(self.totals):  # no step so far had a gradient
            self.flat_place = _find_zero_seed(backward) or _find_zero_factor(backward.roots)

    def _find_constant(self) -> None:
        """Find the op from which on the values after a weight without a gradient are alike."""
        zero = next((p for p, sizes in self.sizes.values() if p.array.ndim > 1 and not any(sizes)), None)
        made = None if zero is None else self.facts.flow.find_constant(zero)
        if made is not None:
            self.flat_place = made.place

    def before_step(self, step: OptimizerStep) -> None:
        largest = 0.0
        for p in step.record.parameters():
            size = step.sizes.get(id(p))
            if id(p) not in self.gains and p.array.ndim >= 2 and is_array(p):
                gain = root_mean_square(p.array) * math.sqrt(p.array[0].size)
                self.gains[id(p)] = gain, instruction_of_write(p)
            if size is not None and math.isfinite(size):
                self.sizes.setdefault(id(p), (p, []))[1].append(size)
                largest = max(largest, size)
        if step.sizes:
            self.totals.append(largest)

    def finish(self) -> None:
        names = self.facts.names
        weights = [(p, sizes) for p, sizes in self.sizes.values() if p.array.ndim >= 2 and len(sizes) >= 3]
        if not self.facts.has_found(*CAUSES):
            self._report_exploded()
        if not weights or self.facts.has_found(*CAUSES):
            return
        greatest = max(max(sizes) for _, sizes in weights)
        largest = [  # of each optimizer, for one that trains an adversary has others
            (max(max(self.sizes[id(p)][1]) for p in record.parameters() if id(p) in self.sizes), record)
            for record in self.facts.optimizers.values()
            if any(id(p) in self.sizes for p in record.parameters())
        ]
        limits: dict[int, float] = {}
        for size, record in largest:
            for p in record.parameters():  # one that several optimizers have is measured by the least of them
                limits[id(p)] = min(size, limits.get(id(p), size))
        if greatest == 0:
            self._report_zero(weights)
            return
        if len(weights) >= 3:
            small = [(p, sizes) for p, sizes in weights if 0 < max(sizes) < VANISHED * limits[id(p)]]
            of_all = limits[id(small[0][0])] if small else 0.0
            if small and not self.facts.has_found("softmax-dimension", "saturated-units"):
                first = name = names.name_of_parameter(small[0][0])
                place = names.origin_of_parameter(small[0][0])
                why = ""
                cause = min((p for p, _ in weights), key=lambda p: self.gains[id(p)][0])
                gain, written = self.gains[id(cause)]
                if gain < MIN_GAIN:
                    name = names.name_of_parameter(cause)
                    place = place_of_write(written) or names.origin_of_parameter(cause) or place
                    why = f"; {name} {tuple(cause.shape)} began so small that it multiplies by about {gain:.2g}"
                self.report(
                    "vanishing-gradients",
                    place,
                    name,
                    f"the gradient of {first} is {max(small[0][1]):.2g}, and the largest is {of_all:.2g}; it "
                    f"vanishes in {len(small)} of {pluralize(len(weights), 'weight')}{why}",
                    "scale the initial weights up" if why else REMEDY_FOR_DEPTH,
                    f"{max(small[0][1]):.2g}",
                )
        zero = [p for p, sizes in weights if max(sizes) == 0]
        if zero and not self.facts.has_found(
            "dead-units", "gradients-clamped", "state-reset", "first-step", "first-layer", "one-direction"
        ):
            self._report_zero([(p, []) for p in zero])

    def _report_exploded(self) -> None:
        """Report gradients that are very large in the first step, and stay so as long as they are finite."""
        names = self.facts.names
        every = [(p, sizes) for p, sizes in self.sizes.values() if p.array.ndim >= 2]
        largest = [(p, median(sizes)) for p, sizes in every if is_exploded(sizes)]
        if largest and not self.facts.has_found("input-not-normalized", "target-not-normalized"):
            p, size = max(largest, key=lambda pair: pair[1])
            name = names.name_of_parameter(p)
            place = names.origin_of_parameter(p)
            problem = f"the gradient of {name} has a root mean square of {size:.2g}, from the first step on"
            cause = max((each for each, _ in every), key=lambda each: self.gains[id(each)][0])
            gain, written = self.gains[id(cause)]
            by_hand = place_of_write(written)
            if gain > (MAX_GAIN if by_hand is None else MAX_WRITTEN_GAIN):
                name = names.name_of_parameter(cause)
                place = by_hand or names.origin_of_parameter(cause) or place
                problem += f"; {name} {tuple(cause.shape)} began so large that it multiplies by about {gain:.2g}"
            self.report(
                "exploding-gradients",
                place or self._loss_place(),
                name,
                problem,
                "scale the initial weights down, use the mean and not the sum in the loss, or clip_grad_norm_",
                f"{size:.2g}",
            )

    def _loss_place(self) -> Place | None:
        return self.facts.backwards[-1].place if self.facts.backwards else None

    def _report_zero(self, weights: Sequence[tuple[Operand, Sequence[float]]]) -> None:
        if self.facts.has_found(*CAUSES_OF_ZEROS):
            return
        names = self.facts.names
        cut = next((cut for cut in self.facts.cuts if not cut.what.startswith(WEAK_CUTS)), None)
        name = names.name_of_parameter(weights[0][0])
        flat = self.flat_place or (None if cut is None else cut.place)
        self.report(
            "zero-gradient",
            flat if flat is not None else names.origin_of_parameter(weights[0][0]) or self._loss_place(),
            name,
            f"the gradient of {name} is exactly 0 in every step ({pluralize(len(weights), 'weight')})",
            "look for round(), sign(), a clamp beyond its limits, a factor 0, or units that never fire",
            0,
        )


def is_exploded(sizes: Sequence[float]) -> bool:
    """Return whether gradients are too large from the first step on, the few that are finite far too large."""
    return median(sizes) > EXPLODED and sizes[0] > (EXPLODED if len(sizes) >= 3 else EXPLODED**2)


def _find_zero_seed(backward: Backward) -> Place | None:
    """Return the line of a pass that begins with a gradient of zeros."""
    frame = find_library_call("backward")
    names = ("gradient", "grad_tensors")
    seed = next((frame.f_locals[name] for name in names if name in frame.f_locals), None) if frame is not None else None
    return backward.place if isinstance(seed, Tensor) and is_array(seed) and not seed.array.any() else None


def _find_zero_factor(roots: Sequence[Tensor]) -> Place | None:
    """Return the line of a product, nearest to the loss, one of whose factors is 0 throughout."""
    queue: list[Operand] = [root.node for root in roots]
    seen: set[Operand] = set()
    while queue and len(seen) < MAX_WALKED:
        node = queue.pop(0)
        if not isinstance(node, Node) or node in seen:
            continue
        seen.add(node)
        factors = [x for x in node.saved_values or () if type(x) is np.ndarray] if node.op.name == "mul" else []
        if any(x.size > 1 and not x.any() for x in factors):
            return Place(node.site)
        queue += [parent for parent in node.parents if parent is not None]
    return None
