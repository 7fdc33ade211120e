"""The stages of a loop nest with folds: a fold that needs another's result waits for it, and the loops run once more.

Stage t runs the folding loops for the t-th time. A value of one element for each fold is known before the stage that
its time names; what has an element for each that is folded is computed in every stage which needs it, unless it is
taken from where it was stored.
"""

from __future__ import annotations

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.kernels.loop_nest.iteration_space import IterationSpace, OperandLoad


class ReductionStages:
    """The stage in which each value of a group is computed."""

    def __init__(self, space: IterationSpace) -> None:
        self.space, group = space, space.group
        self.time: dict[Value, int] = {}
        for value in group.equations:
            ready = max((self.time.get(s, 0) for s in space.sources(value) if isinstance(s, Value)), default=0)
            self.time[value] = ready + 1 if value.op.combine else ready
        self._small = {v for v in group.equations if v in group.reduced_values or v.op.combine}
        written = [self.time[v] + 1 for v in group.stored if v not in self._small]
        self.count = max([1, *written, *(self.time[v] for v in group.reductions)])
        self.folds = [[v for v in group.reductions if self.time[v] == t + 1] for t in range(self.count)]
        self.stored = [
            [v for v in group.stored if v not in self._small and self.time[v] == t] for t in range(self.count)
        ]
        self.kept_stored = [v for v in group.stored if v in self._small]
        self.needed_sources = [self._find_needed_sources(t) for t in range(self.count)]

    def is_small(self, value: Value) -> bool:
        """True if a value has one element for each fold."""
        return value in self._small

    def is_loaded_back(self, value: Value, stage: int) -> bool:
        """True if a stage reads a value from where an earlier one has stored it."""
        return value in self.space.writes and value not in self._small and self.time[value] < stage

    def _find_needed_sources(self, stage: int) -> set[OperandLoad | Value]:
        """Return the values that a stage needs in registers, for each element that is folded."""
        stack: list[OperandLoad | Value] = [*self.stored[stage]]
        for fold in self.folds[stage]:
            stack.extend(self.space.sources(fold))
        wanted: set[OperandLoad | Value] = set()
        while stack:
            source = stack.pop()
            if source in wanted or source in self._small:
                continue
            wanted.add(source)
            if isinstance(source, Value) and not self.is_loaded_back(source, stage):
                stack.extend(self.space.sources(source))
        return wanted


def can_overwrite(value: Value, symbol: Value, space: IterationSpace) -> bool:
    """True if a kernel may write `value` over `symbol`, which it reads: no element is read after it is written."""
    group = space.group
    if value.op.combine:
        return False
    reads = [(read, access) for read, access in space.reads.items() if access.base is symbol]
    if any(access.offset or access.strides != space.writes[value].strides for _, access in reads):
        return False
    if value in group.reduced_values:
        return all(read.is_per_reduction for read, _ in reads)
    if not group.reductions:
        return True
    stages = ReductionStages(space)
    return stages.time[value] == stages.count - 1
