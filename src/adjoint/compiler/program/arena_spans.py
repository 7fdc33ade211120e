"""The values that lie in a program's arena: how long each needs memory, and which of them share a place."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.kernels.kernel_kinds import KERNEL_KINDS, WRITING
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.passes.memory_plan import MemoryPlan, Span, aligned_size

ReadersByValue = dict[Value, list[tuple[Group, StridedView]]]


class ArenaSpans:
    """The values that only the program sees, each from the step that makes it to the last that reads it.

    `kept`: values that are copied elsewhere when all is computed. `is_placed` tells those with memory outside of the
    arena. `overwritten`: results of writes that take the place of another value, by that value.
    """

    def __init__(
        self, fusion: Fusion, readers: ReadersByValue, kept: Iterable[Value], is_placed: Callable[[Value], bool]
    ) -> None:
        self._fusion, self._is_placed = fusion, is_placed
        self._step = {group: i for i, group in enumerate(fusion.order)}
        self._inside = fusion.placed_in_concat
        self.first = {v: self._step[group] for group in fusion.order for v in group.stored}
        self._last = self.first.copy()
        self._last |= {base: max(self._step[group] for group, _ in reads) for base, reads in readers.items()}
        self._last |= dict.fromkeys(kept, len(fusion.order))
        for v, (whole, _) in self._inside.items():
            self.first[whole] = min(self.first[whole], self.first[v])
            self._last[whole] = max(self._last[whole], self._last[v])
        self.overwritten = self._find_overwritten()
        for v, former in self.overwritten.items():
            self._last[former] = max(self._last[former], self._last[v])
        shared = self._inside.keys() | self.overwritten.keys()
        stored = (v for group in fusion.order for v in group.stored)
        self.spans = [
            Span(v, self.first[v], self._last[v]) for v in stored if self._is_in_arena(v) and v not in shared
        ]

    def add_shared_places(self, made: MemoryPlan) -> MemoryPlan:
        """Add the values that lie where others do to a plan of the spans."""
        for v, (whole, begins) in self._inside.items():
            places = made.offsets if whole in made.offsets else made.lent
            places[v] = places[whole] + begins * v.dtype.itemsize
        for v, former in self.overwritten.items():
            places = made.offsets if former in made.offsets else made.lent
            places[v] = places[former]
        return made._replace(unshared=made.unshared + sum(map(aligned_size, self.overwritten)))

    def _is_in_arena(self, v: Value) -> bool:
        return v in self.first and not self._is_placed(v) and v.op.family != "check"

    def _find_overwritten(self) -> dict[Value, Value]:
        """Find writes into copies of values that nothing needs any more: they take that memory, and copy nothing.

        Return, by the result of the write, the value whose memory it takes: the first where several are written over
        one another.
        """
        found: dict[Value, Value] = {}
        for group in self._fusion.order:
            v = group.root
            if v is None or group.call or KERNEL_KINDS[v.op.name] is not WRITING or v not in group.stored:
                continue
            former = self._fusion.views[v.operands[0]].base
            if not (self._is_in_arena(v) and self._is_in_arena(former) and self._inside.keys().isdisjoint((v, former))):
                continue
            if self._last[former] == self._step[group] and can_overwrite_once(self._fusion, v, former):
                found[v] = found.get(former, former)
        return found


def can_overwrite_once(fusion: Fusion, v: Value, former: Value) -> bool:
    """Return whether the kernel of `v` may write it over `former`; the answer is kept with the plan."""
    answers = fusion.memo
    if (v, former) not in answers:
        from adjoint.compiler.kernels.lowerings import can_overwrite

        answers[v, former] = can_overwrite(fusion.maker[v], fusion, v, former)
    return bool(answers[v, former])
