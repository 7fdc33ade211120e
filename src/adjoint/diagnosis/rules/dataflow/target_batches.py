"""Rules on the targets of all batches: labels that are all the same, or that come in order of their class."""

from __future__ import annotations

from itertools import pairwise
from types import FrameType

import numpy as np

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.data.dataset import IterableDataset
from adjoint.data.sampler import SequentialSampler
from adjoint.diagnosis.findings import Place, place_of_frame
from adjoint.diagnosis.rules.data import MIN_SAMPLES, length_of
from adjoint.diagnosis.rules.targets import ERRORS
from adjoint.diagnosis.watch.events import caller_frame
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.frames import place_of_attribute
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.names import describe_data, describe_iterated
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import ValueFlow

MAX_GIVEN = 64  # batches
MIN_LABELS = 24  # that are all the same
BatchOfTargets = tuple[float, float, bool, int, int]  # smallest, largest, whether they ascend, how many, the pass


class Targets(WatchRule):
    """Labels that are all the same, or that come in order of their class."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.last: object = None  # the place and the targets of the loss seen last, which has several ops
        self.batches: list[BatchOfTargets] = []
        self.joined: set[Place] = set()
        self.places: dict[Place, list[BatchOfTargets]] = {}  # of losses
        self.given: dict[int, BatchOfTargets] = {}  # by a loader, in each pass
        self.place: Place | None = None  # of the first loss
        self.data: tuple[str, Place | None] = "target", None  # the variable of its targets, and the line that made it
        self.is_varied = False  # its values differ, though those of the batches do not
        self.classes = 0
        self.loader: tuple[Operand, Place | None, str] | None = None

    def loader_is_read(self, loader: Operand) -> None:
        """See a pass over a loader begin."""
        frame = caller_frame()
        if self.loader is None or not self.facts.steps:
            name, made = describe_iterated(loader, frame)
            made = self.facts.constructions.get(loader, made)
            self.loader = loader, made or place_of_frame(frame), name
            if length_of(loader) == 0:
                self._report_empty(loader, made or place_of_frame(frame), name or "the loader")

    def _report_empty(self, loader: Operand, place: Place, name: str) -> None:
        samples, size = length_of(loader.dataset), loader.batch_size
        problem = f"{name} gives no batch: {samples} samples, batches of {size}, and drop_last={loader.drop_last}"
        advice = "a smaller batch_size, or drop_last=False" if samples else "look at what fills its dataset"
        self.report("no-batches", place, name, problem, advice, samples)

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if x is None or target is None or x.node is None or target.node is not None or len(self.batches) >= 64:
            return
        y, is_class = target.array, call.name in ("cross_entropy", "nll_loss")
        ignored = call.arguments.get("ignore_index")
        if is_class and isinstance(ignored, int) and y.dtype.kind in "iu" and not (y == ignored).all():
            y = y[y != ignored]
        if y.size < MIN_SAMPLES or (not is_class and y.ndim > 1 and y.shape[-1] != 1):
            return
        described, place = self._describe(y), call.place
        maker = self.facts.flow.maker(x)
        is_zero = call.name in ERRORS and not y.any()
        if is_zero and ("zeros" in place.text or (maker is not None and maker.op == "sub")):
            return  # an error, or a distance, that is to be 0
        if self.last == (described, place):
            return
        self.last = described, place
        if is_class:
            if y.dtype.kind not in "iu":
                return
            if not y.any() and any(
                made.op == "cat" and made.out.node is not None for made in self.facts.flow.makers_behind(x)
            ):
                self.joined.add(place)
            if place in self.joined:
                return  # the first of the scores that are joined is the match
            self.classes = max(self.classes, x.array.shape[1] if x.array.ndim > 1 else 0)
        self.batches.append(described)
        self.places.setdefault(place, []).append(described)
        if self.place is None:
            whole = find_column(self.facts.flow, target)
            name, made = describe_data(whole, caller_frame())
            if self.loader is not None and (made is None or made.text.startswith("for ")):
                name, made = describe_constant(self.loader[0].dataset, caller_frame())
            is_batch = made is None or made.text.startswith("for ")
            self.place, self.data = place, ("target", place) if is_batch else (name, made)
            labels = whole.array[whole.array != ignored] if isinstance(ignored, int) else whole.array
            self.is_varied = whole is not target and labels.size > 1 and bool(np.ptp(labels))

    def _describe(self, y: Operand) -> BatchOfTargets:
        flat = y.ravel()
        is_sorted = bool((flat[1:] >= flat[:-1]).all())
        return float(flat.min()), float(flat.max()), is_sorted, y.size, self.facts.iteration

    def batch_is_given(self, batch: Operand) -> None:
        """See a batch of a loader: its last vector, if the losses that are watched get it, is the targets of each."""
        parts = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else ()
        vectors = [
            x.array for x in parts if is_array(x) and x.array.ndim and x.array.size == len(x.array) >= MIN_SAMPLES
        ]
        if vectors and len(self.given) < MAX_GIVEN:
            self.given[self.facts.iteration] = self._describe(vectors[-1])

    def finish(self) -> None:
        batches = self.batches
        known = [self.given[batch[4]] == batch for batch in batches if batch[4] in self.given]
        if len(known) == len(batches) < len(self.given) and all(known):
            batches = list(self.given.values())
        if len(batches) < 3:
            return
        constant = all(low == high for low, high, *_ in batches)
        total = sum(size for *_, size, _ in batches)
        if constant and len({low for low, *_ in batches}) == 1 and total >= MIN_LABELS:
            if self.classes == 1 or self.facts.has_found("sampler-weights", "sign-for-operator"):
                return
            if self.is_varied:
                self._report_order(len(batches), len(batches))
                return
            self.report(
                "labels-constant",
                self.data[1],
                self.data[0],
                f"all {pluralize(total, 'label')} of {pluralize(len(batches), 'batch', 'batches')} are "
                f"{batches[0][0]:g}: nothing can be learned",
                "look at how the labels are made",
                f"{batches[0][0]:g}",
            )
            return
        if len(self.places) == 1:
            self._check_order(batches)
        else:
            for each in self.places.values():
                self._check_order(each)

    def _check_order(self, batches: list[BatchOfTargets]) -> None:
        """Look for batches of one class each, or of classes that ascend."""
        if len(batches) < 3:
            return
        values = {low for low, *_ in batches}
        pure = sum(low == high for low, high, *_ in batches)
        ordered = all(batch[2] for batch in batches) and sum(
            after[0] >= before[1] for before, after in pairwise(batches)
        ) >= 0.6 * (len(batches) - 1)
        changes = sum(before[:2] != after[:2] for before, after in pairwise(batches))
        passes = {(batch[4], batch[0]) for batch in batches}
        is_of_both = len(passes) > len({number for number, _ in passes})  # one pass, on batches of other labels
        is_alternating = changes > max(2 * len(values), len(batches) / 2)
        if pure == len(batches) and (is_of_both or is_alternating):
            return  # labels of a discriminator: one batch of each
        if (pure >= 0.7 * len(batches) and len(values) > 1) or (ordered and len(values) > 1):
            self._report_order(pure, len(batches))

    def _report_order(self, pure: int, count: int) -> None:
        name, place = self.data
        advice = "shuffle the samples before they are cut into batches (randperm)"
        if self.loader is not None:
            loader, made, text = self.loader
            is_stream = isinstance(loader.dataset, IterableDataset)
            if not is_stream and not isinstance(getattr(loader, "sampler", None), SequentialSampler):
                return
            place, name = made or place, text or "the loader"
            advice = "give the samples of __iter__ in random order" if is_stream else "DataLoader(…, shuffle=True)"
        what = f"{pure} of {count} batches have one class only" if pure else f"the labels of {count} batches ascend"
        problem = f"{what}: the data comes in order of its labels"
        self.report("data-not-shuffled", place, name, problem, advice, f"{pure}/{count}")


def find_column(flow: ValueFlow, target: Tensor) -> Tensor:
    """Return the data of which a target has some rows; of a table, its column alone."""
    made = flow.maker(target)
    while made is not None and made.tensors and (made.family == "movement" or made.op == "index"):
        below = made.tensors[0]
        if below.array.ndim != target.array.ndim and below.array.size != target.array.size:
            break
        target, made = below, flow.maker(below)
    return target


def describe_constant(dataset: Operand, frame: FrameType) -> tuple[str, Place | None]:
    """Return the name of the values of a dataset that are all the same, and the line that made them."""
    while hasattr(dataset, "indices") and hasattr(dataset, "dataset"):  # some rows of another one
        dataset = dataset.dataset
    parts = [("", each) for each in getattr(dataset, "tensors", ())] or list(getattr(dataset, "__dict__", {}).items())
    for key, value in reversed(parts):
        array = getattr(value, "array", value)
        if isinstance(array, np.ndarray) and array.ndim and len(array) == length_of(dataset) and not np.ptp(array):
            name, made = describe_data(value, frame)
            return name or f"self.{key}", made or (place_of_attribute(dataset, key) if key else None)
    return "", None
