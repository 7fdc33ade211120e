"""Rules on labels: a loss of a value with itself, classes that are cut off fractions, classes balanced twice."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.tensor.mutation_log import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.data.sampler import WeightedRandomSampler
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.targets import BINARY, ERRORS
from adjoint.diagnosis.watch.events import ModuleCall, caller_place, distinct_values
from adjoint.diagnosis.watch.facts import Facts, address_of, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES

CLASS_LOSSES = ("cross_entropy", "nll_loss")
MIN_FRACTIONS = 0.05  # share of values that are no whole numbers
MIN_WEIGHT_RATIO = 1.5  # of the largest weight to the least
MIN_LABELS = 16
VOID = frozenset({-100, -1, 254, 255})  # labels that losses leave out
MAX_CLASSES = 50


class LossOfItself(WatchRule):
    """A loss whose target is its own input."""

    max_passes = CHECKED_PASSES

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if call.name not in (*ERRORS, *BINARY, "kl_div") or x is None or target is None or x.node is None:
            return
        if x is target or x.array is target.array:
            problem = f"{call.name} compares a value {tuple(x.shape)} with itself: nothing is learned from it"
            self.report("loss-of-itself", call.place, call.name, problem, "the data as its target", tuple(x.shape))


class ClampedLabels(WatchRule):
    """Labels that are to be ignored, which a clamp makes those of a class."""

    ops = frozenset({"clamp_max", "clamp_min", "clamp_range", "minimum", "clamp"})

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.clamped: list[tuple[Tensor, Place, int, int, float]] = []  # with the value before and after, and the share

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if (
            not is_array(x)
            or out.array.dtype.kind != "i"
            or x.array.shape != out.array.shape
            or out.array.size < MIN_LABELS
        ):
            return
        changed = x.array != out.array
        before, after = distinct_values(x.array[changed]), distinct_values(out.array[changed])
        if len(before) == len(after) == 1 and int(before[0]) in VOID and len(self.clamped) < MAX_CLASSES:
            self.clamped.append((out, caller_place(), int(before[0]), int(after[0]), float(changed.mean())))

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        if call.name not in CLASS_LOSSES or target is None or not self.clamped:
            return
        for out, place, before, after, share in self.clamped:
            ignored = call.arguments.get("ignore_index") == after
            if owner(out.array) is owner(target.array) and not ignored:
                problem = (
                    f"{share:.0%} of the labels are {before}, and become {after} here: what is to be left out counts "
                )
                problem += f"as class {after}"
                name = place.text.partition("=")[0].strip()
                self.report("labels-clamped", place, name, problem, f"ignore_index={before} of the loss", before)
                self.clamped = []
                return


class SameTargets(WatchRule):
    """Targets that are cut from the same place of a whole in each step, where the inputs are cut from others."""

    sees_roots_only = True
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.input: Tensor | None = None
        self.seen: list[tuple[int, int]] = []  # where input and target lie, of each pass

    def enter_module(self, call: ModuleCall) -> None:
        if call.parent is None and call.is_recording and call.tensors():
            self.input = call.tensors()[0]

    def see_call(self, call: LibraryCall) -> None:
        x, target = self.input, call.tensor("target")
        self.input = None
        if x is None or target is None or x.node is not None or target.node is not None or len(self.seen) > 1:
            return
        if any(made is None or made.op != "slice" for made in map(self.facts.flow.maker, (x, target))):
            return
        self.seen.append((address_of(x), address_of(target)))
        if len(self.seen) == 2 and self.seen[0][0] != self.seen[1][0] and self.seen[0][1] == self.seen[1][1]:
            name = call.place.text.partition(",")[2].strip(" )") or "the target"
            problem = (
                f"the inputs {tuple(x.shape)} of each step are other samples, and the targets {tuple(target.shape)} "
            )
            problem += "the same ones"
            self.report("same-targets", call.place, name, problem, "cut both by the same indices", tuple(target.shape))


class TruncatedLabels(WatchRule):
    """Classes that were made of fractions, such as a mask that was interpolated."""

    max_passes = FLOW_PASSES

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        if call.name not in CLASS_LOSSES or target is None or target.array.dtype.kind not in "iu":
            return
        made = self.facts.flow.maker_past_moves(target)
        source = made.tensors[0].array if made is not None and made.op == "cast" and made.tensors else None
        if made is None or source is None or source.dtype.kind != "f":
            return
        share = float((source != np.trunc(source)).mean())
        if share >= MIN_FRACTIONS:
            behind = [each.function for each in self.facts.flow.makers_behind(made.tensors[0])]
            advice = (
                'mode="nearest" where labels are resized' if "interpolate" in behind else "round(), or whole numbers"
            )
            problem = (
                f"{share:.0%} of the labels {tuple(target.shape)} are fractions that {made.function}() cuts off: they "
            )
            problem += "become other classes"
            self.report("labels-truncated", made.place, "target", problem, advice, f"{share:.0%}")


class BalancedTwice(WatchRule):
    """Rare classes that a sampler draws more often, and that the loss weighs more too."""

    sees_roots_only = True
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.is_balanced = False
        self.loss: ModuleCall | None = None  # a module without parameters, such as a criterion

    def loader_is_read(self, loader: Operand) -> None:
        """See a pass over a loader begin."""
        sampler = getattr(loader, "sampler", None)
        weights = sampler.weights if isinstance(sampler, WeightedRandomSampler) else None
        self.is_balanced = isinstance(weights, Tensor) and is_uneven(weights)

    def enter_module(self, call: ModuleCall) -> None:
        self.loss = call if self.is_balanced and next(call.module.parameters(), None) is None else None

    def see_call(self, call: LibraryCall) -> None:
        weight, target = call.tensor("weight"), call.tensor("target")
        if not self.is_balanced or call.name not in CLASS_LOSSES or weight is None or target is None:
            return
        counts = np.bincount(target.array.ravel(), minlength=weight.array.size)
        if target.array.size < MIN_LABELS or not is_uneven(weight) or not counts.all():
            return
        low, high = float(weight.array.min()), float(weight.array.max())
        if counts.max() < 3 * counts.min():
            root = self.facts.names.roots.get(id(self.loss.module)) if self.loss is not None else None
            place = root.made if root is not None and root.made is not None else call.place
            problem = (
                f"the sampler draws the classes about as often, {counts.tolist()} in a batch, and the loss weighs "
            )
            problem += f"them {low:.3g} to {high:.3g}: the rare ones count twice over"
            self.report(
                "balanced-twice", place, "weight", problem, "one of both: the sampler or weight=", f"{high:.3g}"
            )


def is_uneven(weights: Tensor) -> bool:
    """Return whether weights differ much."""
    array = weights.array
    return bool(array.size and array.min() > 0 and array.max() > MIN_WEIGHT_RATIO * array.min())


class ClassesAsNumbers(WatchRule):
    """Classes that are learned as numbers by a squared error, and told apart by rounding."""

    ops = frozenset({"round"})
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.errors: list[tuple[Tensor, Place, int]] = []  # outputs, the lines of their losses, the number of classes
        self.rounded: list[Operand] = []

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        self.rounded.append(inputs[0].array)

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        made = self.facts.flow.maker_past_moves(target)
        if (
            call.name != "mse_loss"
            or x is None
            or target is None
            or x.node is None
            or made is None
            or made.op != "cast"
        ):
            return
        labels = made.tensors[0].array
        classes = len(distinct_values(labels))
        if labels.dtype.kind in "iu" and 2 < classes <= MAX_CLASSES and labels.size > 2 * classes and x.array.ndim:
            self.errors.append((self.facts.flow.source(x), call.place, classes))

    def finish(self) -> None:
        for x, place, classes in self.errors:
            if any(np.shares_memory(x.array, each) for each in self.rounded):
                problem = (
                    f"{classes} classes are learned as the numbers 0 to {classes - 1}, by a squared error: a sample "
                )
                problem += "between two classes is drawn to what lies between their numbers"
                advice = f"{classes} outputs and cross_entropy"
                self.report("classes-as-numbers", place, "mse_loss", problem, advice, classes)
                return
