"""Rules on hidden units: those that are 0 for all samples, and those that are saturated for all."""

from __future__ import annotations

import numpy as np

from adjoint.core.graph.source_location import library_files
from adjoint.core.op.op import Op
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import place_of_instruction
from adjoint.diagnosis.watch.events import caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule

DEAD_SHARE = 0.9
SATURATED_SHARE = 0.7  # of the elements, at both ends
ONE_SIDED_SHARE = 0.98  # at one end
SATURATED = {"tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0)}  # the limits, from which on the gradient is next to 0
MARGIN = 1e-4
MIN_UNITS, MIN_STEPS, MIN_SAMPLES = 4, 3, 24
MIN_PASSES = 2  # with saturated units


class DeadUnits(WatchRule):
    """Units that are 0 for every sample: of ReLU, and of what else keeps positive numbers alone."""

    ops = frozenset({"relu", "clamp_range", "maximum", "where", "mul", "hardtanh", "threshold"})

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.alive: dict[Operand, tuple[Operand, int, int, str]] = {}  # by the line and the module

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        array = out.array
        if out.node is None or array.ndim < 2 or array.shape[0] < 2 or not is_rectified(op, inputs, out):
            return
        axis = 1 if array.ndim >= 4 else array.ndim - 1
        node: Operand = out.node
        key = node.code, node.instruction_offset, id(self.facts.module()), array.shape[axis]
        axes = tuple(i for i in range(array.ndim) if i != axis)
        fires = array.any(axis=axes)
        before = self.alive.get(key)
        samples, steps = array.size // array.shape[axis], 1
        name = ""
        if before is None:
            module = self.facts.module()
            name = self.facts.names.name_of_module(module) if module is not None else op.name
        else:
            fires = fires | before[0]
            samples, steps, name = samples + before[1], 1 + before[2], before[3]
        self.alive[key] = fires, samples, steps, name

    def finish(self) -> None:
        if self.facts.has_found("constant-weights"):
            return
        for (code, offset, _, count), (alive, samples, steps, name) in self.alive.items():
            dead = count - int(np.count_nonzero(alive))
            if steps < MIN_STEPS or samples < MIN_SAMPLES or count < MIN_UNITS or dead < DEAD_SHARE * count:
                continue
            place = place_of_instruction((code, offset))
            self.report(
                "dead-units",
                None if library_files[place.site.file] else place,
                name,
                f"{dead} of {pluralize(count, 'unit')} of ReLU in {name} are 0 for all "
                f"{pluralize(samples, 'sample')}: they get no gradient",
                "lower the learning rate, look at the bias and the scale of the input, or use LeakyReLU",
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
        if self.counts[key] != MIN_PASSES:
            return
        module, x = self.facts.module(), inputs[0].array
        name = self.facts.names.name_of_module(module) if module is not None else op.name
        share = f"{at_low + at_high:.0%}"
        self.report(
            "saturated-units",
            caller_place(),
            f"{op.name} in {name}" if module is not None else name,
            f"{share} of the results of {op.name} {tuple(out.shape)} are at its limits from the first step on, for its "
            f"operand goes from {x.min():.3g} to {x.max():.3g}: their gradient is next to 0",
            "scale the initial weights or the input down, or use a normalization layer before it",
            share,
        )
