"""Rules on data: its scale, its order, labels and batches that never change."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from adjoint.core.graph.source_location import library_files, user_instruction
from adjoint.core.op.op import Op
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.as_strided import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.data.sampler import SequentialSampler
from adjoint.diagnosis.findings import Place, place_of_frame, place_of_instruction
from adjoint.diagnosis.rules.settings import find_calls
from adjoint.diagnosis.watch.events import ModuleCall, caller_frame, caller_place, root_mean_square
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.names import describe_iterated
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule

LARGE_INPUT = 20.0  # root mean square from which an input counts as not normalised
MIN_SHIFTED, MAX_SHIFT = 1.0, 50.0  # the size of a mean, and how many deviations from 0 it may be
MIN_VALUES = 64
CHECKED_STEPS = 3
SAME_DRAWS = 3  # of the same random numbers
MIN_SAMPLES, MAX_INPUTS = 8, 24


class InputScale(WatchRule):
    """Data of large numbers that enters a layer as it is."""

    ops = frozenset({"linear", "mm", "addmm", "convolution"})
    max_passes = CHECKED_PASSES

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if out.node is None or self.facts.steps >= CHECKED_STEPS:
            return
        x, weight = (inputs[1], inputs[2]) if op.name == "addmm" else (inputs[0], inputs[1])
        if not is_array(x) or not is_array(weight) or x.node is not None or weight.node is None:
            return
        array = x.array
        if array.dtype.kind != "f" or array.size < MIN_SAMPLES or getattr(x, "_detach_record", None) is not None:
            return
        size = root_mean_square(array)
        is_large = LARGE_INPUT < size < np.inf
        is_shifted = MIN_SHIFTED <= size < np.inf and array.size >= MIN_VALUES and 0 < array.std() < size / MAX_SHIFT
        is_divided = is_divided_twice(array)
        if not is_large and not is_shifted and not is_divided:
            return
        call = self.facts.calls[0] if self.facts.calls else None
        place, name = caller_place(), "the input"
        if call is not None and call.place is not None:
            place = call.place
        first, last = float(array.min()), float(array.max())
        self.report(
            "input-not-normalized",
            place,
            self.facts.names.name_of_module(call.module) if call is not None else name,
            f"{name} {tuple(x.shape)} goes from {first:.4g} to {last:.4g} (mean {array.mean():.3g}, standard deviation "
            f"{array.std():.3g}): "
            + (
                "gradients and steps are as much too large"
                if is_large
                else "bytes that were divided by 255 twice"
                if is_divided
                else "its values hardly differ from their mean"
            ),
            "divide once"
            if is_divided
            else "divide by 255"
            if first >= 0 and 200 < last <= 255
            else "subtract the mean and divide by the deviation",
            f"{first:.4g} to {last:.4g}",
        )


def is_divided_twice(array: Operand) -> bool:
    """Return whether numbers are bytes divided by 255 * 255."""
    if array.size < MIN_VALUES or array.min() < 0 or not 0.5 / 255 < array.max() <= 1.001 / 255:
        return False
    bytes_ = array.astype(np.float64) * 255 * 255
    return bool(np.abs(bytes_ - np.round(bytes_)).max() < 0.01)


class Targets(WatchRule):
    """Labels that are all the same, or that come in order of their class."""

    ops = frozenset({"mean_nll", "entropy", "squared_error"})

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.batches: list[tuple[float, float, bool, int, int]] = []
        self.place: Place | None = None
        self.classes = 0
        self.loader: tuple[Operand, Place | None, str] | None = None

    def loader_is_read(self, loader: Operand) -> None:
        """See a pass over a loader begin."""
        frame = caller_frame()
        if self.loader is None or not self.facts.steps:
            name, made = describe_iterated(loader, frame)
            self.loader = loader, made or place_of_frame(frame), name
            if _length(loader) == 0:
                self._report_empty(loader, made or place_of_frame(frame), name or "the loader")

    def _report_empty(self, loader: Operand, place: Place, name: str) -> None:
        samples, size = _length(loader.dataset), loader.batch_size
        problem = f"{name} gives no batch: {samples} samples, batches of {size}, and drop_last={loader.drop_last}"
        advice = "a smaller batch_size, or drop_last=False"
        self.report("no-batches", place, name, problem, advice, samples)

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        target = inputs[1]
        if out.node is None or not is_array(target) or target.node is not None or len(self.batches) >= 64:
            return
        y = target.array
        if y.size < MIN_SAMPLES or (op.name == "squared_error" and y.ndim > 1 and y.shape[-1] != 1):
            return
        if op.name == "mean_nll":
            if not y.any() and any(made.op == "cat" for made in self.facts.flow.makers_behind(inputs[0])):
                return  # the first of the scores that are joined is the match
            self.classes = max(self.classes, inputs[0].array.shape[1])
        flat = y.ravel()
        is_sorted = bool((flat[1:] >= flat[:-1]).all())
        self.batches.append((float(flat.min()), float(flat.max()), is_sorted, y.size, self.facts.iteration))
        self.place = self.place or caller_place()

    def finish(self) -> None:
        batches = self.batches
        if len(batches) < 3:
            return
        constant = all(low == high for low, high, *_ in batches)
        values = {low for low, *_ in batches}
        total = sum(size for *_, size, _ in batches)
        if constant and len(values) == 1 and total >= 32:
            if self.classes == 1 or self.facts.has_found("sampler-weights"):
                return
            self.report(
                "labels-constant",
                self.place,
                "target",
                f"all {pluralize(total, 'label')} of {pluralize(len(batches), 'batch', 'batches')} are "
                f"{next(iter(values)):g}: nothing can be learned",
                "look at how the labels are made",
                f"{next(iter(values)):g}",
            )
            return
        pure = sum(low == high for low, high, *_ in batches)
        ordered = all(batch[2] for batch in batches) and sum(
            after[0] >= before[1] for before, after in pairwise(batches)
        ) >= 0.6 * (len(batches) - 1)
        changes = sum(before[:2] != after[:2] for before, after in pairwise(batches))
        if pure == len(batches) and changes > 2 * len(values):
            return  # labels of a discriminator: one batch of each
        if (pure >= 0.7 * len(batches) and len(values) > 1) or (ordered and len(values) > 1):
            self._report_order(pure)

    def _report_order(self, pure: int) -> None:
        place, name = self.place, "target"
        advice = "shuffle the samples before they are cut into batches (randperm)"
        if self.loader is not None:
            loader, made, text = self.loader
            if not isinstance(getattr(loader, "sampler", None), SequentialSampler):
                return
            place, name = made or place, text or "the loader"
            advice = "DataLoader(…, shuffle=True)"
        count = len(self.batches)
        what = f"{pure} of {count} batches have one class only" if pure else f"the labels of {count} batches ascend"
        problem = f"{what}: the data comes in order of its labels"
        self.report("data-not-shuffled", place, name, problem, advice, f"{pure}/{count}")


class SameBatch(WatchRule):
    """The same batch in each step, although a loader gives others; and random numbers that repeat."""

    ops = frozenset({"normal", "uniform", "randint", "random_integers", "permutation", "dropout_factor"})
    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.draws: dict[tuple[Operand, int], tuple[bytes, int, int]] = {}
        self.passes: list[tuple[Operand, int, Place]] = []
        self.inputs: list[tuple[bytes, Place | None]] = []
        self.calls = 0  # of models that train

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if out.array.size < 4:
            return
        location = user_instruction(2)
        if library_files[location[0].co_filename]:
            return
        print_of, now = fingerprint(out.array), self.facts.steps
        before = self.draws.get(location)
        if before is None or before[0] != print_of:
            self.draws[location] = print_of, now, 1
            return
        count = before[2] + (now > before[1])
        self.draws[location] = print_of, now, count
        if count == SAME_DRAWS:
            what = "the dropout mask is" if op.name == "dropout_factor" else "the random numbers are"
            self.report(
                "random-numbers-repeat",
                find_seeding(place_of_instruction(location)),
                "manual_seed",
                f"{what} the same in {pluralize(count, 'step')}: the generator is seeded anew in each",
                "call manual_seed once, before the loop",
                count,
            )

    def loader_is_read(self, loader: Operand) -> None:
        """See a pass over a loader begin."""
        self.passes.append((loader, self.facts.steps, place_of_frame(caller_frame())))

    def enter_module(self, call: ModuleCall) -> None:
        if (
            call.parent is not None
            or not call.is_recording
            or not call.module.training
            or len(self.inputs) >= MAX_INPUTS
        ):
            return
        if next(iter(call.module.parameters()), None) is None:
            return
        x = next((x for x in call.tensors() if is_array(x)), None)
        if x is None or x.array.size < 2:
            return
        if self.passes:
            self.inputs.append((fingerprint(x.array), call.place))
        rows = x.array
        self.calls += 1
        if rows.ndim >= 2 and len(rows) >= 4 and x.node is None and self.calls == 2 and rows.strides[0]:
            self._check_rows(rows, call)

    def _check_rows(self, rows: Operand, call: ModuleCall) -> None:
        if (rows == rows[:1]).all() and np.ptp(rows[0]) > 0:
            loader, _, place = self.passes[-1] if self.passes else (None, 0, call.place)
            stacked = self.facts.flow.maker(next(iter(call.tensors())))
            self.report(
                "same-sample",
                place if stacked is None or self.passes else stacked.place,
                type(getattr(loader, "dataset", loader)).__name__ if loader is not None else "the batch",
                f"all {pluralize(len(rows), 'sample')} of a batch are the same",
                "look at the dataset's __getitem__: does it use its index, has each entry its own memory (clone())?",
                len(rows),
            )

    def finish(self) -> None:
        prints = [each for each, _ in self.inputs]
        if len(prints) < 4 or len(set(prints)) > 1 or not self.passes:
            return
        loader, _, place = self.passes[-1]
        steps = {steps for each, steps, _ in self.passes if each is loader}
        length = _length(loader)
        if length is not None and length < 2:
            return
        if len(steps) >= 4:  # a pass in each step
            self.report(
                "same-batch",
                place,
                "next(iter(loader))",
                f"all {pluralize(len(prints), 'step')} get the same batch: each begins a new pass over the loader",
                "for x, y in loader: …, or keep one iterator: it = iter(loader), next(it)",
                len(prints),
            )
        elif len(prints) >= 4 and steps and min(steps) == 0 and place.text.startswith("for "):
            self.report(
                "same-batch",
                self.inputs[0][1],
                "input",
                f"the model gets the same batch in all {pluralize(len(prints), 'step')}, although the loader gives "
                f"{length}",
                "give the model the batch of this turn of the loop",
                len(prints),
            )


class ConstantInput(WatchRule):
    """Inputs that are all the same number, or that hold the target."""

    sees_roots_only = True
    max_passes = CHECKED_STEPS

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.last: tuple[ModuleCall, Operand] | None = None

    def enter_module(self, call: ModuleCall) -> None:
        if call.parent is None and call.is_recording and self.facts.iteration < CHECKED_STEPS:
            tensors = call.tensors()
            x = tensors[0] if len(tensors) == 1 and is_array(tensors[0]) and tensors[0].node is None else None
            self.last = None if x is None or x.array.ndim < 2 or len(x.array) < MIN_SAMPLES else (call, x)

    def see_call(self, call: LibraryCall) -> None:
        target, first = call.tensor("target"), self.last
        if (
            target is None
            or first is None
            or target.array.shape[:1] != first[1].array.shape[:1]
            or target.node is not None
        ):
            return
        array, y, module = first[1].array, target.array, first[0].module
        self.last = None
        if next(iter(module.parameters()), None) is None or np.ptp(y) == 0:
            return
        name, shape = self.facts.names.name_of_module(module), tuple(array.shape)
        if np.ptp(array) == 0:
            problem = (
                f"the input {shape} of {name} is {array.flat[0]:g} throughout: nothing in it tells the targets apart"
            )
            advice = "look at how it is made: // cuts a fraction off, an empty buffer stays 0"
            self.report("constant-input", first[0].place, name, problem, advice, f"{array.flat[0]:g}")
        elif array.ndim == 2 and y.size == len(array) >= 2 * MIN_SAMPLES and array.shape[1] > 1:
            same = np.flatnonzero((array == y.reshape(-1, 1)).all(axis=0))
            if same.size:
                problem = f"column {same[0]} of the input {shape} of {name} is the target itself"
                advice = "take the target out of the features"
                self.report("target-in-input", first[0].place, name, problem, advice, int(same[0]))


class MixedOrder(WatchRule):
    """Inputs and labels that are shuffled each by its own permutation."""

    ops = frozenset({"randperm", "index"})
    sees_roots_only = True
    max_passes = CHECKED_STEPS

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.orders: dict[int, tuple[Operand, int]] = {}  # permutations by their memory, and their number
        self.shuffled: dict[int, tuple[Operand, int, Place]] = {}  # what was read in such an order, by its memory
        self.input_order: tuple[int, int] | None = None  # the permutation's number, and how many it orders

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if self.facts.iteration >= CHECKED_STEPS or out.array.ndim == 0:
            return
        memory: Operand = owner(out.array)
        if op.name == "randperm":
            self.orders[id(memory)] = memory, len(self.orders)
        elif len(inputs) == 2 and is_array(inputs[1]) and is_array(inputs[0]):
            order: Operand = owner(inputs[1].array)
            known = self.orders.get(id(order))
            if known is not None and known[0] is order and inputs[1].array.size == len(inputs[0].array):
                self.shuffled[id(memory)] = memory, known[1], caller_place()

    def _find_order(self, x: Operand) -> tuple[int, Place] | None:
        memory: Operand = owner(x.array)
        known = self.shuffled.get(id(memory))
        return known[1:] if known is not None and known[0] is memory else None

    def enter_module(self, call: ModuleCall) -> None:
        if call.parent is None and self.shuffled and call.tensors() and is_array(call.tensors()[0]):
            found = self._find_order(call.tensors()[0])
            self.input_order = None if found is None else (found[0], len(call.tensors()[0].array))

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        found = self._find_order(target) if target is not None and self.input_order is not None else None
        if found is None or target is None or self.input_order is None or found[0] == self.input_order[0]:
            return
        problem = "the targets are in the order of another permutation than the inputs: each input gets the target of "
        problem += "another sample"
        advice = "draw one permutation, and index both with it: order = torch.randperm(n)"
        name = found[1].text.partition("=")[0].strip() if "=" in found[1].text else "the target"
        self.report("shuffled-apart", found[1], name, problem, advice, self.input_order[1])


def find_seeding(place: Place) -> Place:
    """Return the line that seeds the generator before a draw, or that of the draw."""
    lines = [each for each in find_calls(place.site, ("manual_seed",)) if each.site.line < place.site.line]
    return max(lines, key=lambda each: each.site.line, default=place)


def _length(loader: Operand) -> int | None:
    try:
        return len(loader)
    except TypeError:
        return None


def fingerprint(array: Operand) -> bytes:
    """Return bytes that tell arrays apart: some of their elements."""
    flat = array.ravel()
    return bytes(flat[:: max(1, flat.size // 256)].tobytes()) + str(array.shape).encode()
