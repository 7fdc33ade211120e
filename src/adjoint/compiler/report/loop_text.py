"""The loops of a kernel as text: what is computed where, without the registers and tiles of its code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from adjoint.compiler.ir.graph import UNPRINTED_PARAMS, Value
from adjoint.compiler.ir.graph_text import format_literal
from adjoint.compiler.kernels.elementwise import Access
from adjoint.compiler.kernels.loop_nest.iteration_space import IterationSpace, OperandLoad, space_of
from adjoint.compiler.kernels.loop_nest.reduction_stages import ReductionStages
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group
from adjoint.core.op.spec import describe

INDEX_NAMES = "ijklmnopqr"
INDENT = "  "
Names = Mapping[Value, str]


def format_loops(group: Group, fusion: Fusion, names: Names) -> str:
    """Return the loops of a kernel, or the line of a call; `names`: those of the graph's values."""
    if group.shape is None or group in fusion.elided_concats:
        how = "call" if group.shape is None else "nothing to copy:"
        lines: Iterable[str] = (f"{how} {_equation(v, names, _operand_names(v, names))}" for v in group.equations)
    elif group.root is not None:
        lines = _format_rooted(group, group.root, names)
    else:
        lines = _LoopText(group, space_of(group, fusion), names).lines()
    return "\n".join(lines)


def _format_rooted(group: Group, root: Value, names: Names) -> Iterator[str]:
    """Yield the lines of a kernel of its own kind: its operand's equations, its root, then element by element."""
    yield f"{root.op.name} kernel over {describe(root)}"
    before, after = group.prologue, [v for v in group.equations if v is not root and v not in group.prologue]
    for title, equations in (("where an operand is packed:", before), ("", [root]), ("for each element:", after)):
        if title and equations:
            yield f"{INDENT}{title}"
        for v in equations:
            yield f"{INDENT * (2 if title else 1)}{_equation(v, names, _operand_names(v, names))}"
    yield f"{INDENT}store {', '.join(names[v] for v in group.stored)}"


class _LoopText:
    """The text of one loop nest."""

    def __init__(self, group: Group, space: IterationSpace, names: Names) -> None:
        self.group, self.space, self.names = group, space, names
        self.stages = ReductionStages(space)

    def lines(self) -> Iterator[str]:
        """Yield the kept loops; inside them each stage of the reducing loops, and what follows from its results."""
        space, stages, outer = self.space, self.stages, self.space.first_reduced
        yield from self._headers(0, outer)
        inside = INDENT * outer
        yield from (f"{inside}{self._line(v)}" for v in self._small_at(0))
        for stage in range(stages.count):
            label = f"  # reduced, pass {stage + 1} of {stages.count}" if stages.count > 1 else "  # reduced"
            depth = INDENT * len(space.loops)
            yield from self._headers(outer, len(space.loops), label)
            for v in self.group.equations:
                needed = v in stages.needed_sources[stage] or not self.group.reductions
                if v in stages.folds[stage]:
                    (source,) = self._sources(v, stage)
                    yield f"{depth}{self.names[v]} = {v.op.name} of {source}"
                elif needed and not stages.is_small(v) and not stages.is_loaded_back(v, stage):
                    yield f"{depth}{self._line(v, stage)}"
            yield from (f"{inside}{self._line(v)}" for v in self._small_at(stage + 1))
        for v in stages.kept_stored:
            yield f"{inside}{self._place(self.names[v], space.writes[v])} = {self.names[v]}"

    def _headers(self, first: int, last: int, label: str = "") -> Iterator[str]:
        for depth in range(first, last):
            yield f"{INDENT * depth}for {INDEX_NAMES[depth]} in range({self.space.loops[depth].size}):{label}"

    def _small_at(self, time: int) -> Iterator[Value]:
        """Yield the equations of one element for each reduction that are ready after so many stages."""
        small = (v for v in self.group.equations if self.stages.is_small(v) and not v.op.combine)
        return (v for v in small if self.stages.time[v] == time)

    def _line(self, v: Value, stage: int = -1) -> str:
        """Return an equation; in the stage that stores its result, with the place of that."""
        text, name = _equation(v, self.names, self._sources(v, stage)), self.names[v]
        is_stored = stage >= 0 and v in self.stages.stored[stage]
        return text.replace(name, self._place(name, self.space.writes[v]), 1) if is_stored else text

    def _sources(self, v: Value, stage: int) -> list[str]:
        return [self._source(s, stage) for s in self.space.sources(v)]

    def _source(self, source: OperandLoad | Value, stage: int) -> str:
        """Return an operand: the name of a register, or the place that it is loaded from."""
        if isinstance(source, OperandLoad):
            access = self.space.reads[source]
            return self._place(self.names[access.base], access)
        loaded = self.stages.is_loaded_back(source, stage)
        name = self.names[source]
        return self._place(name, self.space.writes[source]) if loaded else name

    def _place(self, name: str, access: Access) -> str:
        """Return an element of an array in memory, by its position there: `%3[64*i + j]`."""
        steps = zip(access.strides, INDEX_NAMES, strict=False)
        terms = [index if step == 1 else f"{step}*{index}" for step, index in steps if step]
        terms += [str(access.offset)] if access.offset or not terms else []
        return f"{name}[{' + '.join(terms)}]"


def _operand_names(v: Value, names: Names) -> list[str]:
    return [names[x] for x in v.operands]


def _equation(v: Value, names: Names, operands: Sequence[str]) -> str:
    """Return `%n = op(…)`, with the operands as given."""
    given = iter(operands)
    inputs = [next(given) if isinstance(x, Value) else format_literal(x) for x in v.inputs]
    params = [f"{key}={format_literal(x)}" for key, x in v.params.items() if key not in UNPRINTED_PARAMS]
    return f"{names[v]} = {v.op.name}({', '.join([*inputs, *params])})"
