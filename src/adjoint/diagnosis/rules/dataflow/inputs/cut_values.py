"""Rules on values that are lost before a model sees them: cut by limits, outweighed by one, or known too early."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.tensor.mutation_log import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.dataflow.sample_order import find_rows
from adjoint.diagnosis.watch.events import ModuleCall, caller_place, distinct_values, first_rows
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, Made

MIN_ROWS = 30
MIN_CUT = 0.3  # of standardised values
MAX_MEAN, MIN_DEVIATION, MAX_DEVIATION = 0.2, 0.7, 1.4
MIN_REPEATED = 0.03  # of the values of a column
MIN_GAP = 8  # deviations of the others
MIN_DISTINCT = 8
MAX_SUMMANDS = 400


class CutFeatures(WatchRule):
    """Standardised features of which a clamp cuts off a side."""

    ops = frozenset({"clamp_range"})
    max_passes = 1

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if not is_array(x) or x.node is not None or x.array.ndim < 2 or len(x.array) < MIN_ROWS:
            return
        if x.array.dtype.kind != "f" or self.facts.module() is not None:
            return
        mean, deviation = float(x.array.mean()), float(x.array.std())
        cut = x.array != out.array
        share = float(cut.mean())
        is_standard = abs(mean) < MAX_MEAN and MIN_DEVIATION < deviation < MAX_DEVIATION
        if is_standard and share > MIN_CUT and (out.array[cut].min() == 0 or out.array[cut].max() == 0):
            problem = (
                f"{share:.0%} of the values {tuple(x.shape)} lie beyond these limits: they have a mean of {mean:.2g} "
            )
            problem += (
                f"and a deviation of {deviation:.2g}, and are cut to {out.array.min():.3g} to {out.array.max():.3g}"
            )
            advice = "limits on both sides of 0, such as -3 and 3"
            self.report("values-cut", caller_place(), "clamp", problem, advice, f"{share:.0%}")


class SentinelValues(WatchRule):
    """Columns in which one value, that many rows have, lies far from all others: missing ones, written as a number."""

    sees_roots_only = True
    max_passes = 1

    def enter_module(self, call: ModuleCall) -> None:
        x = next(iter(call.tensors()), None)
        if x is None or not is_array(x) or x.node is not None or x.array.ndim != 2 or len(x.array) < MIN_ROWS:
            return
        if x.array.dtype.kind != "f":
            return
        rows = first_rows(x.array)
        ordered = np.sort(rows, axis=0)
        repeats = (ordered[0] == ordered[1]) | (
            ordered[-1] == ordered[-2]
        )  # few columns, of which all values are asked
        found = [int(i) for i in np.flatnonzero(repeats) if has_sentinel(rows[:, i])]
        if found and call.place is not None:
            column = rows[:, found[0]]
            value = column.min() if (column == column.min()).mean() >= MIN_REPEATED else column.max()
            others = column[column != value]
            name = self.facts.names.name_of_module(call.module)
            problem = f"{len(found)} columns of the input of {name} have one value apart: {float(value):.4g} in "
            problem += (
                f"{(column == value).mean():.0%} of the rows of column {found[0]}, where the others have a deviation "
            )
            problem += f"of {float(others.std()):.2g}"
            advice = "replace what stands for a missing value before the columns are scaled"
            self.report("sentinel-values", call.place, "input", problem, advice, f"{float(value):.4g}")


def has_sentinel(column: Array) -> bool:
    """Return whether the least or the greatest value is that of several rows, and lies far from all others."""
    for value in (column.min(), column.max()):
        is_same = column == value
        others = column[~is_same]
        if MIN_REPEATED <= is_same.mean() < 0.5 and is_same.sum() > 1 and len(others) > MIN_DISTINCT:
            spread = float(others.std())
            gap = float(np.abs(others - value).min())
            if spread > 0 and gap > MIN_GAP * spread and len(distinct_values(others)) > MIN_DISTINCT:
                return True
    return False


class LabelsInFeatures(WatchRule):
    """Features that were computed from the labels of rows that are held out."""

    sees_roots_only = True
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.input: Tensor | None = None

    def enter_module(self, call: ModuleCall) -> None:
        x = next(iter(call.tensors()), None)
        self.input = x if call.is_recording and x is not None and is_array(x) and x.node is None else None

    def see_call(self, call: LibraryCall) -> None:
        x, target, self.input = self.input, call.tensor("target"), None
        rows = find_rows(target.array) if target is not None and target.array.ndim else None
        if x is None or target is None or rows is None or not self.facts.flow.is_open:
            return
        whole: Operand = owner(target.array)
        first, last, count = rows[0], rows[0] + len(target.array), rows[1]
        if last - first < count // 4:
            return  # a batch, and not all rows of training
        for made in self.facts.flow.makers_behind(x)[:MAX_SUMMANDS]:
            for each in made.tensors:
                if owner(each.array) is not whole or each.array is target.array or made.family == "movement":
                    continue
                if target.array.dtype.kind != "i" and not is_choice(made):
                    continue  # a series, whose features are its own values
                read = self._rows_read(each, made.inputs if made.op == "index" else (), count)
                if read is not None and (read[0] < first or read[1] > last):
                    problem = (
                        f"the features come from the labels of rows {read[0]} to {read[1] - 1}, and rows {first} to "
                    )
                    problem += f"{last - 1} train: the others know their labels"
                    makers = self.facts.flow.makers_behind(x)
                    places = [each.place for each in makers if any(owner(y.array) is whole for y in each.tensors)]
                    place = min(places, key=lambda place: place.site.line)
                    advice = "compute them from the rows of training alone"
                    self.report("labels-in-features", place, "features", problem, advice, read[1])
                    return

    def _rows_read(self, part: Tensor, inputs: Operands, count: int) -> tuple[int, int] | None:
        """Return the first row that an op reads of the labels, and the one after the last."""
        index = next((x.array for x in inputs[1:] if isinstance(x, Tensor) and x.array.dtype.kind == "i"), None)
        if index is not None:
            return (int(index.min()), int(index.max()) + 1) if index.size else None
        rows = find_rows(part.array)
        return (0, count) if rows is None else (rows[0], rows[0] + len(part.array))


def is_choice(made: Made) -> bool:
    """Return whether an op reads some rows, which do not lie in one piece, of a vector."""
    index = next((x.array for x in made.tensors[1:] if x.array.dtype.kind == "i"), None) if made.op == "index" else None
    return index is not None and index.ndim == 1 and index.size > 1 and int(np.ptp(index)) + 1 > index.size


class OwnMean(WatchRule):
    """A single value less its own mean, which is 0: a batch of one that was to be normalised."""

    ops = frozenset({"sub"})
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.counts: dict[Place, int] = {}

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        made = self.facts.flow.maker_past_moves(inputs[1]) if len(inputs) > 1 and is_array(x) else None
        if (
            made is None
            or x.array.size != 1
            or x.array.ndim < 1
            or made.op != "mean"
            or made.tensors[0].array is not x.array
        ):
            return
        place = caller_place()
        self.counts[place] = self.counts.get(place, 0) + 1
        if self.counts[place] == FLOW_PASSES:
            problem = f"a single value {tuple(x.shape)} less its own mean is 0 in each step: nothing is left of it"
            advice = "normalise over several samples, or leave it out"
            self.report("norm-of-one-value", place, place.text.partition("=")[0].strip(), problem, advice, 0)
