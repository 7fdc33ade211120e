"""Rules on hidden units: those that are 0 for all samples, and those that are saturated for all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adjoint.core.graph.node import Leaf
from adjoint.core.graph.source_location import library_files
from adjoint.core.op.op import Op
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place, place_of_instruction
from adjoint.diagnosis.rules.writes import instruction_of_write, place_of_write
from adjoint.diagnosis.watch.events import caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array, op_name
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.nn.module.module import Module

DEAD_SHARE = 0.9
SATURATED_SHARE = 0.7  # of the elements, at both ends
ONE_SIDED_SHARE = 0.98  # at one end
SATURATED = {"tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0)}  # the limits, from which on the gradient is next to 0
MARGIN = 1e-4
MIN_UNITS, MIN_STEPS, MIN_SAMPLES = 4, 3, 24
WITH_BIAS = ("linear", "addmm", "convolution")
BIAS_RATIO = 3.0  # of a bias to the deviation of a layer's results, from which it alone tells their sign
MIN_PASSES = 2  # with saturated units


@dataclass(frozen=True)
class LargeBias:
    """A bias that outweighs the rest of a layer's results, its mean, and the line that wrote it."""

    parameter: Operand
    mean: float
    place: Place | None


def find_bias(x: Operand) -> LargeBias | None:
    """Return the bias of the layer that gave `x`, if it alone tells the sign of all results."""
    node: Operand = x.node if isinstance(x, Tensor) else None
    leaf: Operand = node.parents[-1] if op_name(node) in WITH_BIAS and node.parents else None
    bias: Operand = leaf.variable if type(leaf) is Leaf else None
    if bias is None or bias.array.ndim != 1 or np.abs(bias.array).min() < BIAS_RATIO * x.array.std():
        return None
    return LargeBias(bias, float(bias.array.mean()), place_of_write(instruction_of_write(bias)))


class DeadUnits(WatchRule):
    """Units that are 0 for every sample: of ReLU, and of what else keeps positive numbers alone."""

    ops = frozenset({"relu", "clamp_range", "maximum", "where", "mul", "hardtanh", "threshold"})

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        # by the line and the module: which units fired, samples, steps, the module and the op
        self.alive: dict[Operand, tuple[Operand, int, int, Module | None, str]] = {}
        self.biases: dict[Operand, LargeBias] = {}  # of the operands

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        array = out.array
        if out.node is None or array.ndim < 2 or array.shape[0] < 2:
            return
        axis = 1 if array.ndim >= 4 else array.ndim - 1
        node: Operand = out.node
        key = node.code, node.instruction_offset, id(self.facts.module()), array.shape[axis]
        before = self.alive.get(key)
        if (before is not None and before[0].all()) or not is_rectified(op, inputs, out):
            return
        # none is negative, and the maximum takes a third of the time of `any`
        fires = array.max(axis=tuple(i for i in range(array.ndim) if i != axis)) != 0
        samples, steps = array.size // array.shape[axis], 1
        if before is None:
            bias = find_bias(inputs[0])
            if bias is not None:
                self.biases[key] = bias
        else:
            fires = fires | before[0]
            samples, steps = samples + before[1], 1 + before[2]
        self.alive[key] = fires, samples, steps, self.facts.module(), op.name

    def finish(self) -> None:
        if self.facts.has_found("constant-weights"):
            return
        for key, (alive, samples, steps, module, op) in self.alive.items():
            code, offset, _, count = key
            dead = count - int(np.count_nonzero(alive))
            if steps < MIN_STEPS or samples < MIN_SAMPLES or count < MIN_UNITS or dead < DEAD_SHARE * count:
                continue
            name = op if module is None else self.facts.names.name_of_module(module)
            place: Place | None = place_of_instruction((code, offset))
            place = None if place is None or library_files[place.site.file] else place
            advice = "lower the learning rate, look at the bias and the scale of the input, or use LeakyReLU"
            why = ""
            if key in self.biases:
                bias = self.biases[key]
                bias_name = self.facts.names.name_of_parameter(bias.parameter)
                why = f", for {bias_name} began at {bias.mean:.3g}"
                place, advice = bias.place or place, f"begin with {bias_name} at 0"
            self.report(
                "dead-units",
                place,
                name,
                f"{dead} of {pluralize(count, 'unit')} of ReLU in {name} are 0 for all "
                f"{pluralize(samples, 'sample')}{why}: they get no gradient",
                advice,
                f"{dead}/{count}",
            )


def is_rectified(op: Op, inputs: Operands, out: Tensor) -> bool:
    """Return whether an op gave the positive part of its operand, however it is written."""
    if op.name == "relu":
        return True
    x = next((x for x in inputs if is_array(x) and x.node is not None and x.array.shape == out.array.shape), None)
    if x is None or x.array.dtype.kind != "f":
        return False
    if op.name in ("clamp_range", "hardtanh"):
        params: Operand = getattr(out.node, "params", None) or {}
        return params.get("low") == 0
    if op.name == "threshold":
        return True
    # a product with a mask of truths, a choice or maximum of 0: where one is negative, the result is 0
    others = [each for each in inputs if each is not x and getattr(each, "array", each) is not None]
    if op.name == "maximum":
        return any(_is_zero(each) for each in others)
    masks = [
        each.array for each in others if is_array(each) and each.node is None and each.array.shape == x.array.shape
    ]
    if op.name == "where":
        if not any(_is_zero(each) for each in others):
            return False
        masks = [mask for mask in masks if mask.dtype == bool]
    return any(np.array_equal(mask, x.array > 0) for mask in masks)


def _is_zero(x: Operand) -> bool:
    array = x.array if isinstance(x, Tensor) else x
    return not np.any(array)


class SaturatedUnits(WatchRule):
    """Hidden units of tanh or sigmoid that are at their limits for all samples: their gradient is next to 0."""

    ops = frozenset(SATURATED)
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.counts: dict[Operand, int] = {}
        self.biases: dict[Operand, LargeBias | None] = {}  # at first

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        array = out.array
        if out.node is None or array.ndim < 2 or array.shape[-1] < MIN_UNITS or len(array) < 2:
            return
        low, high = SATURATED[op.name]
        at_low, at_high = (array < low + MARGIN).mean(), (array > high - MARGIN).mean()
        if at_low + at_high < (SATURATED_SHARE if min(at_low, at_high) else ONE_SIDED_SHARE):
            return
        node: Operand = out.node
        key = node.code, node.instruction_offset
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] == 1:
            self.biases[key] = find_bias(inputs[0])
        if self.counts[key] != MIN_PASSES:
            return
        module, x = self.facts.module(), inputs[0].array
        name = self.facts.names.name_of_module(module) if module is not None else op.name
        share = f"{at_low + at_high:.0%}"
        bias, advice = self.biases[key], "scale the initial weights or the input down, or use a normalization layer"
        if bias is not None:
            advice = f"begin with {self.facts.names.name_of_parameter(bias.parameter)} nearer to 0"
        self.report(
            "saturated-units",
            (bias.place if bias is not None else None) or caller_place(),
            f"{op.name} in {name}" if module is not None else name,
            f"{share} of the results of {op.name} {tuple(out.shape)} are at its limits from the first step on, for its "
            f"operand goes from {x.min():.3g} to {x.max():.3g}: their gradient is next to 0",
            advice,
            share,
        )
