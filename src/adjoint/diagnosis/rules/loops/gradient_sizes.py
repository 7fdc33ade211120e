"""Rule on the sizes of gradients: those that vanish or explode on the way back, by module."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

import numpy as np

from adjoint.core.graph.node import Leaf, Node
from adjoint.core.graph.source_location import InstructionLocation, library_files
from adjoint.core.op.op import Op
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.missing_gradients import WEAK_CUTS
from adjoint.diagnosis.rules.values import EXPLODED
from adjoint.diagnosis.rules.writes import instruction_of_write, place_of_write
from adjoint.diagnosis.watch.events import Backward, OptimizerStep, caller_frame, caller_place, root_mean_square
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.frames import find_library_call
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import ValueFlow

VANISHED = 1e-6  # root mean square of a gradient, against the largest
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
    "joined-along-batch",
    "dead-units",
    "saturated-units",
    "zero-grad-before-step",
    "constant-weights",
    "norm-of-one-value",
    "logits-too-large",
    "state-reset",
)
SQUASHING = frozenset({"sigmoid", "tanh"})
MIN_SQUASHED = 3  # calls of one line, from which on it is to blame
MIN_FACTOR = 1.5  # of an op whose values grow
MIN_GROWTH = 100.0  # of all calls of a line
MAX_WALKED = 500  # nodes behind a loss that are looked at


class GradientSizes(WatchRule):
    """Gradients that vanish or explode on the way back, by module."""

    ops = frozenset({"round", "sign", "floor", "ceil", "trunc", "clamp_range"})  # whose gradient is 0 everywhere

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.flat_place: Place | None = None  # of such an op between the parameters and the loss
        self.sizes: dict[int, tuple[Operand, list[float]]] = {}
        self.totals: list[float] = []
        self.growth: tuple[Place, float, int] | None = None  # the line whose values grow most, and in how many calls
        self.squashed: tuple[Place, str, int] | None = None  # the line with the most activations, which, and how many
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
        if self.facts.flow.is_open and self.squashed is None:
            self.squashed = find_squashed(self.facts.flow)
        if self.flat_place is None and self.totals and not any(self.totals):  # no step so far had a gradient
            self.flat_place = _find_zero_seed(backward) or _find_zero_factor(backward.roots)

    def _find_constant(self) -> None:
        """Find the op from which on the values after a weight without a gradient are alike."""
        zero = next((p for p, sizes in self.sizes.values() if p.array.ndim > 1 and not any(sizes)), None)
        made = None if zero is None else self.facts.flow.find_constant(zero)
        if made is not None and self._find_small() is None:
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
        if largest > EXPLODED and self.growth is None and self.facts.flow.is_open:
            self.growth = find_growth(self.facts.flow)

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
                why = flat = ""
                cause = self._find_small()
                if cause is not None:
                    name, place, why = cause[0], cause[1] or place, cause[2]
                elif self.squashed is not None:
                    place, called, count = self.squashed
                    flat = f"; each of {count} calls of {called} in this line makes it smaller"
                self.report(
                    "vanishing-gradients",
                    place,
                    name,
                    f"the gradient of {first} is {max(small[0][1]):.2g}, and the largest is {of_all:.2g}; it "
                    f"vanishes in {len(small)} of {pluralize(len(weights), 'weight')}{why}{flat}",
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
            advice = "scale the initial weights down, use the mean and not the sum in the loss, or clip_grad_norm_"
            if gain <= MAX_GAIN and self.growth is not None and self.growth[1] > MIN_GROWTH:
                place, factor, count = self.growth
                problem += f"; {pluralize(count, 'call')} of this line make the values {factor:.2g} times as large"
                advice = "leave out the factor, or normalize after it"
            self.report("exploding-gradients", place or self._loss_place(), name, problem, advice, f"{size:.2g}")

    def _loss_place(self) -> Place | None:
        return self.facts.backwards[-1].place if self.facts.backwards else None

    def _find_small(self) -> tuple[str, Place | None, str] | None:
        """Return the name of the weight that began smallest, who wrote it, and its factor, if that is little."""
        weights = [p for p, _ in self.sizes.values() if id(p) in self.gains and self.gains[id(p)][0] > 0]
        cause = min(weights, key=lambda p: self.gains[id(p)][0], default=None)
        gain, written = self.gains.get(id(cause), (1.0, None))
        if cause is None or gain >= MIN_GAIN:
            return None
        name = self.facts.names.name_of_parameter(cause)
        why = f"; {name} {tuple(cause.shape)} began so small that it multiplies by about {gain:.2g}"
        return name, place_of_write(written) or self.facts.names.origin_of_parameter(cause), why

    def _report_zero(self, weights: Sequence[tuple[Operand, Sequence[float]]]) -> None:
        if self.facts.has_found("vanishing-gradients", *CAUSES_OF_ZEROS):
            return
        names = self.facts.names
        small = self._find_small()
        if small is not None and self.flat_place is None:
            name = names.name_of_parameter(weights[0][0])
            problem = f"the gradient of {name} is 0, for it is below the smallest number of its type{small[2]}"
            self.report("vanishing-gradients", small[1], small[0], problem, "scale the initial weights up", 0)
            return
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


def find_growth(flow: ValueFlow) -> tuple[Place, float, int] | None:
    """Return the line that several times makes values larger, the product of its factors, and how many."""
    factors: dict[Place, list[float]] = {}
    for made in flow.steps.values():
        sizes = [root_mean_square(x.array) for x in made.tensors if x.node is not None and x.array.dtype.kind == "f"]
        is_product = any(type(x.node) is Leaf for x in made.tensors)  # whose weights are told by themselves
        if made.out.node is not None and not is_product and made.out.array.size > 1 and sizes and max(sizes) > 0:
            factor = root_mean_square(made.out.array) / max(sizes)
            if factor > MIN_FACTOR and math.isfinite(factor):
                factors.setdefault(made.place, []).append(factor)
    found = {place: math.prod(each) for place, each in factors.items() if len(each) > 1}
    place = max(found, key=found.__getitem__, default=None)
    return None if place is None else (place, found[place], len(factors[place]))


def find_squashed(flow: ValueFlow) -> tuple[Place, str, int] | None:
    """Return the line that calls sigmoid or tanh most often in a pass, which of both, and how many times."""
    found = (made for made in flow.steps.values() if made.op in SQUASHING and made.function in ("", made.op))
    calls = Counter((made.place, made.op) for made in found)
    (place, called), count = max(calls.items(), key=lambda pair: pair[1], default=((None, ""), 0))
    return None if place is None or count < MIN_SQUASHED else (place, called, count)


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
