"""Rules on held-out data: samples that training has too, and samples that a dataset changes at random."""

from __future__ import annotations

import ast
import re

import numpy as np

from adjoint.core.graph.source_location import Site, library_files
from adjoint.core.typing import Array, Operand
from adjoint.data import Subset
from adjoint.data.sampler import SequentialSampler
from adjoint.diagnosis.findings import Place, place_of_frame
from adjoint.diagnosis.rules.data import fingerprint
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import ModuleCall, caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.names import describe_iterated
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import find_calls, line_of, nodes_at

RANDOM = re.compile(r"rand|choice|uniform|bernoulli|augment|flip|jitter|crop", re.IGNORECASE)
MAX_LOADERS = 16
MIN_WINDOWS = 6
MAX_ROWS = 256  # of a batch, that are compared
MAX_KNOWN_ROWS = 1024
BESIDE_KNOWN = 0.3  # of the new rows of an evaluation
BESIDE_SHARE = 0.5  # of the samples of a part, that lie beside one of another


class SharedSamples(WatchRule):
    """Two parts of a dataset that share samples, one to train and one to evaluate."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.last: Subset[Operand] | None = None

    def loader_is_read(self, loader: Operand) -> None:
        """See a pass over a loader begin."""
        dataset = getattr(loader, "dataset", None)
        last, self.last = self.last, dataset if isinstance(dataset, Subset) else None
        if last is None or self.last is None or last is dataset or last.dataset is not self.last.dataset:
            return
        one, other = set(map(int, last.indices)), set(map(int, self.last.indices))
        both = one & other
        if self.facts.has_found("samples-shared"):
            return
        self._check_windows(last, self.last)
        if both and not one <= other and not other <= one:
            problem = f"{len(both)} of the {len(other)} samples of this loader are among the {len(one)} of the one "
            problem += "before: the evaluation sees samples of training"
            advice = "cut both from one permutation: order[:n] and order[n:], or random_split"
            self.report("samples-shared", place_of_frame(caller_frame()), "Subset", problem, advice, len(both))

    def _check_windows(self, first: Subset[Operand], second: Subset[Operand]) -> None:
        """Look at windows of a series, of which each has most values of the one before."""
        tensors = getattr(first.dataset, "tensors", ())
        x = tensors[0].array if tensors and is_array(tensors[0]) else None
        if x is None or x.ndim < 2 or len(x) < MIN_WINDOWS or x.shape[1] < 2 or x.dtype.kind != "f":
            return
        one, other = set(map(int, first.indices)), set(map(int, second.indices))
        beside = sum(i - 1 in one or i + 1 in one for i in other)
        overlaps = np.array_equal(x[1:MIN_WINDOWS, :-1], x[: MIN_WINDOWS - 1, 1:]) and np.ptp(x[:MIN_WINDOWS]) > 0
        if overlaps and not one & other and beside > BESIDE_SHARE * len(other):
            here = caller_place()
            place = next(find_calls(here.site, ("random_split",)), here)
            problem = f"the samples are windows that overlap, and {beside} of the {len(other)} of this part lie "
            problem += "beside one of the other: both have the same values"
            advice = "cut the series in time, and leave out a window's length between the parts"
            self.report("samples-shared", place, "random_split", problem, advice, beside)


class SharedWindows(WatchRule):
    """Windows of a series that an evaluation reads, most of which begin one value beside one of training."""

    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.trained: list[Array] = []
        self.tested: list[tuple[Array, Place]] = []
        self.count = 0  # of rows of training that are kept

    def enter_module(self, call: ModuleCall) -> None:
        x = next(iter(call.tensors()), None)
        if x is None or x.node is not None or call.place is None or not is_array(x) or x.array.ndim not in (2, 3):
            return
        if x.array.dtype.kind != "f" or x.array.shape[1] < MIN_WINDOWS:
            return
        if call.is_recording and self.count < MAX_KNOWN_ROWS:
            self.trained.append(x.array[:MAX_ROWS].copy())
            self.count += len(self.trained[-1])
        elif not call.is_recording and self.facts.steps and len(self.tested) < MAX_LOADERS:
            self.tested.append((x.array[:MAX_ROWS].copy(), call.place))

    def finish(self) -> None:
        rows: set[bytes] = set()
        parts: set[tuple[str, bytes]] = set()  # the rows of training without their first value, and without their last
        for array in self.trained if self.tested else ():
            step = array[0].nbytes // array.shape[1]
            texts = [each.tobytes() for each in array]
            rows.update(texts)
            parts.update(
                (name, part) for text in texts for name, part in (("head", text[:-step]), ("tail", text[step:]))
            )
        counts: dict[Place, tuple[int, int]] = {}  # how many new rows of an evaluation lie beside those, and all
        for array, place in self.tested:
            step = array[0].nbytes // array.shape[1] if len(array) else 0
            new = [text for each in array if (text := each.tobytes()) not in rows]
            beside = sum(("head", text[step:]) in parts or ("tail", text[:-step]) in parts for text in new)
            count, total = counts.get(place, (0, 0))
            counts[place] = count + beside, total + len(new)
        for place, (beside, total) in counts.items():
            if beside >= MIN_WINDOWS and beside > BESIDE_KNOWN * total and not self.facts.has_found("samples-shared"):
                problem = (
                    f"the samples are windows of a series, and {beside} of the {total} that are evaluated here lie "
                )
                problem += "one value beside one of training: they have the same values"
                advice = "cut the series in time, and leave out a window's length between the parts"
                made = next(find_calls(place.site, ("randperm", "permutation", "shuffle")), place)
                self.report("samples-shared", made, "windows", problem, advice, beside)


class ChangingEvaluation(WatchRule):
    """An evaluation whose samples are others in each pass: its dataset turns or crops them as for training."""

    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.loaders: dict[int, tuple[Operand, str, Place]] = {}  # that give samples in their order, and their names
        self.first: dict[int, list[tuple[bytes, bytes]]] = {}  # of each pass, the first inputs and labels
        self.reading = self.giving = 0  # the loader that is read, and the one whose batch was given last
        self.trained: set[int] = set()
        self.evaluated: set[int] = set()

    def loader_is_read(self, loader: Operand) -> None:
        """See a pass over a loader begin."""
        self.reading = self.giving = 0
        if isinstance(getattr(loader, "sampler", None), SequentialSampler) and len(self.loaders) < MAX_LOADERS:
            self.reading = id(loader)
            if id(loader) not in self.loaders:
                frame = caller_frame()
                name, made = describe_iterated(loader, frame)
                made = self.facts.constructions.get(loader, made)
                self.loaders[id(loader)] = loader, name or "the loader", made or place_of_frame(frame)

    def batch_is_given(self, batch: Operand) -> None:
        """See the batch that a loader gives."""
        self.giving, self.reading = self.reading or self.giving, 0
        parts = [x for x in batch if is_array(x)] if isinstance(batch, (list, tuple)) else []
        arrays = [x.array for x in parts]
        is_of_classes = [x.dtype.kind for x in arrays] == ["f", "i"] and arrays[1].ndim == 1
        if self.giving and is_of_classes:
            self.first.setdefault(self.giving, []).append((fingerprint(arrays[0]), fingerprint(arrays[1])))
        self.giving = self.giving if self.giving not in self.trained else 0

    def enter_module(self, call: ModuleCall) -> None:
        if self.giving:
            (self.trained if call.is_recording else self.evaluated).add(self.giving)

    def finish(self) -> None:
        for key in self.evaluated - self.trained:
            inputs: dict[bytes, set[bytes]] = {}  # by the labels
            for values, labels in self.first.get(key, ()):
                inputs.setdefault(labels, set()).add(values)
            count = max(map(len, inputs.values()), default=0)
            if count > 1:
                loader, name, place = self.loaders[key]
                problem = f"{name} gives the same samples in {count} versions, one for each pass: they are changed at "
                problem += "random, as for training, and the scores with them"
                advice = "the transform of the evaluation without random parts; random ones where training asks"
                self.report("augmented-evaluation", find_draw(loader) or place, name, problem, advice, count)


def find_draw(loader: Operand) -> Place | None:
    """Return the line of the user's dataset that draws random numbers for a sample."""
    dataset = getattr(loader.dataset, "dataset", loader.dataset)
    code: Operand = getattr(getattr(type(dataset), "__getitem__", None), "__code__", None)
    if code is None or library_files[code.co_filename]:
        return None
    for function in nodes_at(Place(Site(code.co_filename, code.co_firstlineno, "")), ast.FunctionDef):
        for call in (each for each in ast.walk(function) if isinstance(each, ast.Call)):
            if RANDOM.search(text_of(call.func)):
                return line_of(code.co_filename, call)
    return None
