"""Rules on ranges: statistics of pictures over the wrong dimensions, real samples beside those of a generator."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.tensor.mutation_log import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import Backward, ModuleCall, caller_place, root_mean_square
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, Made

CHANNELS = (1, 2, 3, 4)
MIN_VALUES = 64
LOW, HIGH = 0.3, 0.7  # which values from 0 to 1 go below and above
MAX_CLASSES = 20
MIN_LABELS = 20  # of each class
MIN_RATIO = 30  # of the sizes of values in different units
DEVIATIONS = frozenset({"deviation", "variance"})
ERRORS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")


class PictureStatistics(WatchRule):
    """Pictures less a mean that is one for each column or row of pixels, and not for each channel."""

    ops = frozenset({"sub"})
    max_passes = 1

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if not self.facts.flow.is_open or not is_array(x) or x.node is not None or x.array.ndim != 4:
            return
        made = self.facts.flow.maker_past_moves(inputs[1])
        channels, rows, columns = x.array.shape[1:]
        if made is None or made.op != "mean" or made.tensors[0].array is not x.array:
            return
        kept = [size for size in made.out.array.shape if size > 1]
        if channels in CHANNELS and kept in ([rows], [columns], [rows, columns]) and kept != [channels]:
            problem = f"the mean of pictures {tuple(x.array.shape)} has the shape {tuple(made.out.array.shape)}: one "
            problem += f"for each {'pixel' if len(kept) == 2 else 'column of pixels'}, not for each of the {channels} "
            problem += "channels"
            advice = "x.mean(dim=(0, 2, 3), keepdim=True), and std of the same dims"
            self.report("statistics-of-pixels", made.place, "mean", problem, advice, tuple(made.out.array.shape))


class SampleRanges(WatchRule):
    """A discriminator whose real samples are in [0, 1], and those of a generator that ends with tanh in [-1, 1]."""

    sees_roots_only = True
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.real: dict[int, tuple[Place, str, tuple[float, float]]] = {}
        self.made: dict[int, str] = {}  # the op that gave the generated samples

    def enter_module(self, call: ModuleCall) -> None:
        x = next((x for x in call.tensors() if is_array(x)), None)
        flow = self.facts.flow
        if x is None or not call.is_recording or x.array.size < MIN_VALUES or not flow.is_open or call.place is None:
            return
        if x.array.dtype.kind != "f" or x.array.ndim < 2:
            return
        made = flow.maker_past_moves(x)
        key = id(call.module)
        if made is not None and made.op in ("tanh", "sigmoid") and made.out.array.shape[0] == x.array.shape[0]:
            self.made[key] = made.op
        elif (
            key not in self.real
            and x.node is None
            and not any(each.out.node is not None for each in flow.makers_behind(x))
        ):
            low, high = float(x.array.min()), float(x.array.max())
            self.real[key] = call.place, self.facts.names.name_of_module(call.module), (low, high)
        if key in self.made and key in self.real:
            self._compare(key)

    def _compare(self, key: int) -> None:
        (place, name, (low, high)), op = self.real[key], self.made[key]
        is_unit = 0 <= low < LOW and HIGH < high <= 1
        is_signed = -1 <= low < -LOW and high <= 1
        if (op == "tanh" and not is_unit) or (op == "sigmoid" and not is_signed):
            return
        limits = "[-1, 1]" if op == "tanh" else "[0, 1]"
        problem = f"{name} gets real samples from {low:.3g} to {high:.3g}, and generated ones of {op} in {limits}: "
        problem += "their range tells them apart"
        advice = "scale the real ones too: x * 2 - 1" if op == "tanh" else "tanh at the end of the generator"
        self.report("ranges-differ", place, name, problem, advice, f"{low:.3g} to {high:.3g}")


class MixedUnits(WatchRule):
    """Predictions of scaled targets that an evaluation compares with targets in their own units."""

    ops = frozenset({"sub"})
    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.size = 0.0  # of the targets of training
        self.last: Operand = None  # memory of what a model gave in an evaluation

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if call.name in ERRORS and x is not None and target is not None and x.node is not None and target.node is None:
            self.size = self.size or root_mean_square(target.array)

    see_written_loss = see_call

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if call.parent is None and not call.is_recording and is_array(output):
            self.last = owner(output.array)

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if self.last is None or not self.size or out.node is not None:
            return
        if len(inputs) < 2 or not all(is_array(x) and x.array.dtype.kind == "f" for x in inputs[:2]):
            return
        for x, target in (inputs[:2], inputs[1::-1]):
            if owner(x.array) is not self.last or target.array.size != x.array.size or x.array.size < 2:
                continue
            ratio = root_mean_square(target.array) / max(self.size, 1e-12)
            if MIN_RATIO < ratio < np.inf and root_mean_square(x.array) < MIN_RATIO * self.size:
                problem = f"predictions of targets of about {self.size:.3g} are compared with values of about "
                problem += f"{ratio * self.size:.3g}: they are in other units"
                advice = "scale them back first: pred * std + mean"
                self.report("units-differ", caller_place(), "target", problem, advice, f"{ratio:.3g}")


class DividedByVariance(WatchRule):
    """Features less their mean that are divided by the variance, and not by the deviation."""

    ops = frozenset({"div"})
    max_passes = 1

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        flow = self.facts.flow
        if not flow.is_open or len(inputs) < 2 or not all(isinstance(x, Tensor) for x in inputs[:2]):
            return
        above, below = (flow.maker(x) for x in inputs[:2])
        if above is None or below is None or above.op != "sub":
            return
        self._check_exchange(above, flow.maker_past_moves(inputs[1]))
        if below.op not in ("variance", "var"):
            return
        x = above.tensors[0].array
        mean = flow.maker_past_moves(above.tensors[1]) if len(above.tensors) > 1 else None
        if mean is not None and mean.op == "mean" and below.tensors[0].array is x:
            deviations = out.array.std(0).ravel() if out.array.ndim > 1 else out.array.std()[None]
            low, high = float(deviations.min()), float(deviations.max())
            problem = f"features are divided by their variance: their deviations are {low:.3g} to {high:.3g}, and not 1"
            self.report("divided-by-variance", above.place, "var", problem, "divide by std", f"{low:.3g} to {high:.3g}")

    def _check_exchange(self, above: Made, below: Made | None) -> None:
        """Look for a deviation that is subtracted, and a mean that divides."""
        first = self.facts.flow.maker_past_moves(above.tensors[-1])
        x = above.tensors[0]
        if first is None or below is None or first.op not in DEVIATIONS or below.op != "mean" or x.node is not None:
            return
        if first.tensors[0].array is below.tensors[0].array is x.array:
            problem = f"features {tuple(x.shape)} less their deviation are divided by their mean: they are neither "
            problem += "centred nor of one scale"
            advice = "(x - x.mean(0)) / x.std(0)"
            self.report("divided-by-mean", above.place, "mean", problem, advice, tuple(x.shape))


class DividedByMeanSquare(WatchRule):
    """Values divided by their mean square, and not by its root: the larger they are, the smaller they become."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            below = flow.maker(made.inputs[1]) if made.op == "div" and len(made.tensors) == 2 else None
            if below is not None and below.op == "add" and len(below.tensors) == 1:
                below = flow.maker(below.tensors[0])
            square = flow.maker(below.tensors[0]) if below is not None and below.op == "mean" else None
            if square is None or below is None or square.op not in ("pow", "square") or made.tensors[0].node is None:
                continue
            x = square.tensors[0]
            is_scaled = any(x is each for above in flow.makers_behind(made.tensors[0])[:3] for each in above.tensors)
            if (x is made.tensors[0] or is_scaled) and below.out.array.shape[-1] == 1:
                problem = (
                    f"values {tuple(x.shape)} are divided by their mean square, and not by its root: twice as large "
                )
                problem += "ones become half as large"
                self.report("divided-by-variance", made.place, "mean", problem, "divide by its sqrt()", tuple(x.shape))
                return


class ShiftedClasses(WatchRule):
    """Labels that begin at 1: the first of the outputs is never right."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.seen: set[int] = set()
        self.count = self.classes = 0
        self.place: Place | None = None
        self.is_sequence = False

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if call.name != "cross_entropy" or x is None or target is None or x.array.ndim != 2 or x.node is None:
            return
        if target.array.ndim != 1 or target.array.dtype.kind != "i" or call.arguments.get("ignore_index", -100) >= 0:
            return
        if not self.count and self.facts.flow.source(x).array.ndim != 2:
            self.is_sequence = True  # tokens, of which one pads or begins
        self.place, self.classes = self.place or call.place, x.array.shape[1]
        self.seen |= set(target.array.tolist())
        self.count += target.array.size

    def finish(self) -> None:
        others = set(range(1, self.classes))
        if (
            not self.is_sequence
            and 3 <= self.classes <= MAX_CLASSES
            and self.count >= MIN_LABELS * self.classes
            and self.seen == others
        ):
            problem = (
                f"the {self.count} labels are 1 to {self.classes - 1} for {self.classes} outputs: class 0 never occurs"
            )
            advice = f"labels - 1, and {self.classes - 1} outputs"
            self.report("classes-from-one", self.place, "target", problem, advice, self.classes)
