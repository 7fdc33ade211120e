"""Rules on the order of samples: inputs that are shuffled alone, and results in another order than their targets."""

from __future__ import annotations

import numpy as np

from adjoint.core.graph.source_location import Site
from adjoint.core.op.op import Op
from adjoint.core.tensor.mutation_log import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Operands
from adjoint.data.loader import DataLoader
from adjoint.data.sampler import RandomSampler
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.source.text_rule import find_sources
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import ModuleCall, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array, leaves_below
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES

MIN_SAMPLES = 8
MAX_ROWS = 64  # of a batch, that are compared
MAX_KNOWN_ROWS = 1024
MIN_AGAIN = 8  # samples that come again
CHANGED_SHARE = 0.35  # of them; half of two classes are alike by chance
KNOWN_SHARE = 0.1  # of changed targets; the others are those of samples that no watched step has seen
READS = ("index", "cast")


class ShuffledAlone(WatchRule):
    """Inputs in the order of a permutation that their targets are not in."""

    ops = frozenset({"randperm", "index"})
    sees_roots_only = True
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.orders: list[Operand] = []  # permutations
        self.used: dict[int, list[tuple[Operand, Place, str]]] = {}  # memory of what each has ordered
        self.current: tuple[int, int] | None = None  # the permutation of the model's input, and its length

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if op.name == "randperm":
            self.orders.append(out.array)
            return
        if len(inputs) != 2 or not is_array(inputs[0]) or not is_array(inputs[1]) or len(self.orders) > 64:
            return
        order: Tensor = inputs[1]
        for i, known in enumerate(self.orders):
            if order.array is known and order.array.size == len(inputs[0].array) >= MIN_SAMPLES:
                place = caller_place()
                self.used.setdefault(i, []).append((owner(out.array), place, place.text))

    def enter_module(self, call: ModuleCall) -> None:
        tensors = call.tensors()
        if call.parent is not None or not tensors or not is_array(tensors[0]) or not call.is_recording:
            return
        memory: Operand = owner(tensors[0].array)
        self.current = next(
            ((i, len(each[0][0])) for i, each in self.used.items() if len(each) == 1 and each[0][0] is memory), None
        )

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        if self.current is None or target is None or target.node is not None:
            return
        number, length = self.current
        whole: Operand = owner(target.array)
        ordered = [each[0] for used in self.used.values() for each in used]
        if len(whole) != length or any(whole is each for each in ordered):
            return
        memory, place, text = self.used[number][0]
        name = text.partition("=")[0].strip() if "=" in text else "the input"
        problem = f"{name} {memory.shape} is in the order of a permutation, and its targets are not: each input gets "
        problem += "the target of another sample"
        self.report("shuffled-apart", place, name, problem, "index both with the same permutation", length)


class ReadOrder(WatchRule):
    """Results along (time, batch) in one row, against targets along (batch, time)."""

    max_passes = FLOW_PASSES

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if x is None or target is None or x.node is None or x.array.shape[:1] != target.array.shape[:1]:
            return
        first, second = self.find_rows(x), self.find_rows(target)
        if first is None or second is None or first == second or first != second[::-1] or not leaves_below((x,)):
            return
        problem = f"the scores come from {first} and the targets from {second}: in one row of {len(x.array)} they are "
        problem += "in different orders"
        self.report("order-differs", call.place, "target", problem, "transpose one of them before reshape", first)

    def find_rows(self, x: Tensor) -> tuple[int, int] | None:
        """Return the two dimensions that a reshape has made one."""
        made = self.facts.flow.maker(x)
        if made is None or made.op != "reshape" or not made.tensors:
            return None
        before, after = made.tensors[0].array.shape, x.array.shape
        if len(before) == len(after) + 1 and before[2:] == after[1:] and min(before[:2]) > 1:
            return before[0], before[1]
        return None


class ShuffledApart(WatchRule):
    """Samples and their targets from two loaders that shuffle each for itself."""

    sees_roots_only = True
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.reading: Operand = None
        self.batches: list[tuple[Operand, Operand]] = []  # the last ones, with the iterators that gave them
        self.input: Operand = None

    def batch_is_read(self, iterator: Operand) -> None:
        """See an iterator that is about to give a batch."""
        self.reading = iterator

    def batch_is_given(self, batch: Operand) -> None:
        """See the batch."""
        if isinstance(batch, Tensor):
            self.batches = [*self.batches[-3:], (batch.array, self.reading)]

    def enter_module(self, call: ModuleCall) -> None:
        x = next(iter(call.tensors()), None)
        self.input = self._find_reader(x) if call.is_recording else None

    def _find_reader(self, x: Tensor | None) -> Operand:
        memory: Operand = None if x is None else x.array
        return next((reader for array, reader in self.batches if array is memory), None)

    def see_call(self, call: LibraryCall) -> None:
        reader, target = self.input, call.tensor("target")
        other = self._find_reader(target)
        if reader is None or other is None or other is reader:
            return
        both = [getattr(getattr(each, "_sampler", None), "sampler", None) for each in (reader, other)]
        if all(isinstance(each, RandomSampler) and each.generator is None for each in both):
            problem = (
                "the samples come from one loader and their targets from another, and each shuffles for itself: they "
            )
            problem += "do not belong together"
            made = self.facts.constructions.items()
            place = next((line for each, line in made if isinstance(each, DataLoader)), None)
            self.report("shuffled-apart", place, "shuffle", problem, "one loader of TensorDataset(x, y)", 2)


class UnorderedTargets(WatchRule):
    """Samples in the order of an index, and targets cut out of the whole as it lies."""

    sees_roots_only = True
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.order: tuple[int, int] | None = None  # the length of an index in disorder, and of what it reads
        self.found: list[tuple[Place, int]] = []

    def enter_module(self, call: ModuleCall) -> None:
        x = next(iter(call.tensors()), None)
        made = self.facts.flow.maker(x) if call.is_recording and x is not None and x.node is None else None
        self.order = None
        if made is None or made.op != "index" or len(made.tensors) != 2 or made.tensors[1].array.ndim != 1:
            return
        rows, index = made.tensors[0].array, made.tensors[1].array
        if index.dtype.kind == "i" and len(index) >= MIN_SAMPLES and not (np.diff(index) > 0).all():
            self.order = len(index), len(rows)

    def see_call(self, call: LibraryCall) -> None:
        order, self.order = self.order, None
        target = call.tensor("target")
        made = self.facts.flow.maker(target) if order is not None and target is not None else None
        if order is None or made is None or made.op != "slice" or made.tensors[0].node is not None:
            return
        if len(made.out.array) == order[0] and len(made.tensors[0].array) == order[1]:
            self.found.append((made.place, order[0]))

    def finish(self) -> None:
        if len(self.found) >= min(FLOW_PASSES, self.facts.iteration) and self.found:
            place, count = self.found[0]
            problem = (
                f"the {count} samples of a batch are read by an index in disorder, and their targets by a slice: they "
            )
            problem += "do not belong together"
            self.report("shuffled-apart", place, "target", problem, "the same index for both", count)


class OtherRows(WatchRule):
    """Targets cut out of their whole at other rows than the inputs of the batch."""

    sees_roots_only = True
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.input: Operand = None
        self.found: list[tuple[Place, int, int]] = []
        self.matched = 0  # calls whose rows are the same

    def enter_module(self, call: ModuleCall) -> None:
        x = next(iter(call.tensors()), None)
        self.input = x.array if call.is_recording and is_array(x) and x is not None and x.node is None else None

    def see_call(self, call: LibraryCall) -> None:
        target, x = call.tensor("target"), self.input
        self.input = None
        if target is None or x is None or target.node is not None or not x.ndim or not target.array.ndim:
            return
        first, second = find_rows(x), find_rows(target.array)
        if first is None or second is None or owner(x) is owner(target.array) or first[1] != second[1]:
            return
        self.matched += first[0] == second[0]
        if len(x) == len(target.array) >= MIN_SAMPLES and abs(first[0] - second[0]) >= len(x):  # none in common
            made = self.facts.flow.maker(target)
            self.found.append((call.place if made is None else made.place, first[0], second[0]))

    def finish(self) -> None:
        if len(self.found) >= 2 and not self.matched:
            place, one, other = self.found[0]
            problem = f"the inputs of a batch begin at row {one} of their whole, and its targets at row {other}: they "
            problem += "belong to other samples"
            self.report("samples-misaligned", place, "target", problem, "the same slice for both", other - one)


def find_rows(part: Array) -> tuple[int, int] | None:
    """Return at which row of the memory that it is a view of an array begins, and how many rows that has."""
    whole: Operand = owner(part)
    stride = part.strides[0] if part.ndim else 0
    if whole is part or stride <= 0 or part.nbytes >= whole.nbytes:
        return None
    row, rest = divmod(part.__array_interface__["data"][0] - whole.__array_interface__["data"][0], stride)
    return None if rest else (row, whole.nbytes // stride)


class ChangingLabels(WatchRule):
    """Samples that come again with the labels of others: one of both is in another order than before.

    Only data counts: targets that a program computes, and inputs that are changed at random, may be others each time.
    """

    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.inputs: list[Tensor] = []  # of a model
        self.output: Operand = None  # memory of what it gave for them
        self.trainings = 0  # that had begun
        self.known: dict[tuple[str, bytes], tuple[int, bytes]] = {}  # the pass and the target of each sample
        self.targets: set[bytes] = set()
        # samples that came again, those with another target, and those with one that another sample had
        self.again = self.changed = self.known_targets = 0
        self.is_data = True
        self.place: Place | None = None

    def enter_module(self, call: ModuleCall) -> None:
        self.inputs, self.output = call.tensors() if self.is_data and call.is_recording else [], None
        if self.facts.trainings > self.trainings:  # of another task, which may give the samples other labels
            self.trainings = self.facts.trainings
            self.known.clear()

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        self.output = owner(output.array) if self.inputs and is_array(output) else None

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if x is None or target is None or self.output is None or owner(x.array) is not self.output:
            return
        made = self.facts.flow.maker(target) if self.facts.flow.is_open else None
        inputs, self.inputs, self.output = self.inputs, [], None
        if target.node is not None or (made is not None and made.family != "movement" and made.op not in READS):
            self.is_data = self.facts.awaits_samples = False
            return
        if not all(is_array(each) and each.node is None for each in inputs) or len(self.known) >= MAX_KNOWN_ROWS:
            return
        labels = rows_of(target.array)
        rows = [b"".join(each) for each in zip(*(rows_of(each.array) for each in inputs), strict=False)]
        if len(rows) < MIN_SAMPLES or len(set(rows)) < len(rows):
            return
        now, self.place = self.facts.iteration, call.place
        for row, label in zip(rows, labels, strict=False) if len(rows) == len(labels) else ():
            time, before = self.known.get((call.name, row), (now, label))
            if time != now:
                self.again += 1
                self.changed += before != label
                self.known_targets += before != label and label in self.targets
            self.known[call.name, row] = now, label
        self.targets.update(labels)
        self.facts.awaits_samples = self.again < MIN_AGAIN

    def finish(self) -> None:
        is_found = self.is_data and self.changed > CHANGED_SHARE * self.again
        is_exchanged = self.again >= MIN_AGAIN and self.known_targets > KNOWN_SHARE * self.changed
        if not is_found or not is_exchanged or self.facts.has_found("shuffled-apart", "samples-misaligned"):
            return
        place, name = self.place, "target"
        for source in find_sources(self.facts):
            for call in source.calls_of("shuffle"):
                if len(call.args) == 1:
                    place, name = Place(Site(source.name, call.lineno, "")), text_of(call.args[0])
        problem = f"{self.changed} of {self.again} samples that came again had the target of another sample: inputs "
        problem += "and targets are not in the same order"
        advice = "index both with the same permutation"
        self.report("shuffled-apart", place, name, problem, advice, f"{self.changed} of {self.again}")


def rows_of(array: Array) -> list[bytes]:
    """Return the bytes of the first samples of a batch."""
    return [each.tobytes() for each in array[:MAX_ROWS]] if array.ndim else []
