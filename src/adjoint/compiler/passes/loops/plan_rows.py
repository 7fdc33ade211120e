"""A plan as rows: a group with its kernel is one, and so can be made again of other values.

The numbers of a row are those of the values that its equations, its kernel and its lists name, then of the places in
which turns of a loop differ. A value has the number of its place among the inputs and the equations in the groups'
order.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from adjoint.compiler.ir.graph import Graph, Value, spec_of
from adjoint.compiler.ir.strided_view import StridedView, strided_view_of
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.plan import CachedPlan
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.passes.loops.equation_kinds import PLACES, EquationKinds, move_places
from adjoint.compiler.passes.loops.repeated_rows import Row
from adjoint.core.typing import Operands

VALUE_LISTS = ("equations", "reductions", "concatenations", "prologue", "stored")  # of a group, with `reduced_values`
PLAIN_SLOTS = ("shape", "gate_width", "rejects_epilogue", "axes", "reason", "call", "rematerialized", "backward")


class PlanStep(NamedTuple):
    """A group of a plan and its equations; or, with `group` None, a view, before the first group that reads it."""

    group: Group | None
    equations: list[Value]


class PlanRows:
    """The rows of a plan whose traced graph has the inputs `given`, each with its number.

    `made`: the inputs that passes added. The last row is of the outputs, and has no step.
    """

    def __init__(self, plan: CachedPlan, given: Mapping[Value, int], count: int, kinds: EquationKinds) -> None:
        """`count`: the inputs that are numbered from 0 on; others have numbers below 0."""
        self.plan, self._kinds = plan, kinds
        self.numbers = dict(given)
        self.made = [v for v in plan.graph.inputs if v not in given]
        self.numbers.update((v, count + i) for i, v in enumerate(self.made))
        self._next = self.first = count + len(self.made)
        self.steps = [*self._make_steps()]
        self.rows = [self._row_of(step) for step in self.steps]
        self.rows.append(Row(("outputs", len(plan.graph.outputs)), [self.numbers[v] for v in plan.graph.outputs]))

    def _make_steps(self) -> Iterator[PlanStep]:
        for group in self.plan.fusion.order:
            found: dict[Value, None] = {}
            for v in group.equations:
                self._add_unnumbered(v.operands, found)
            kernel = self.plan.kernels.get(group)
            self._add_unnumbered(kernel.arguments if kernel else (), found)
            for v in (*found, *group.equations):
                self.numbers[v] = self._next
                self._next += 1
            yield from (PlanStep(None, [v]) for v in found)
            yield PlanStep(group, group.equations)

    def _add_unnumbered(self, values: Iterable[Value], found: dict[Value, None]) -> None:
        """Add the views among `values`, after what they are of, that no step had yet."""
        maker = self.plan.fusion.maker
        for v in values:
            if v in self.numbers or v in found or v in maker:
                continue
            self._add_unnumbered(v.operands, found)
            if v.operands and self.numbers.get(v.operands[0], 0) < 0:
                self.numbers[v] = self.numbers[v.operands[0]]  # a view of another turn's, which is there by then
            else:
                found[v] = None

    def _row_of(self, step: PlanStep) -> Row:
        group, numbers, views = step.group, self.numbers, self.plan.fusion.views
        kinds: list[Hashable] = []
        found: list[int] = []
        for v in step.equations:
            kind, places = self._kinds.kind_of(v)
            view = views[v]
            found += [numbers[x] for x in v.operands]
            found += places
            found += numbers[view.base], view.offset
            kinds += kind, view.shape, view.strides
        if group is None:
            return Row(tuple(kinds), found)
        kernel = self.plan.kernels.get(group)
        for name in VALUE_LISTS:
            values = getattr(group, name)
            found += [numbers[v] for v in values]
            kinds.append(len(values))
        found += sorted(numbers[v] for v in group.reduced_values)
        kinds += len(group.reduced_values), group.root is not None
        found += [] if group.root is None else [numbers[group.root]]
        kinds += [getattr(group, name) for name in PLAIN_SLOTS]
        kinds.append(group in self.plan.fusion.elided_concats)
        if kernel is not None:
            found += [numbers[v] for v in kernel.arguments]
            found += kernel.numbers
            kinds += kernel.name, kernel.tiles, kernel.scratch, id(kernel.generator)
            kinds += len(kernel.arguments), len(kernel.numbers)
        return Row(tuple(kinds), found)

    def lists_of(self, step: PlanStep) -> tuple[Hashable, list[list[int]]]:
        """Return a step's kind without shapes and kernel, and the values that its equations and its lists name.

        Where all turns are joined, a longer loop has longer lists.
        """
        numbers, group = self.numbers, step.group
        kinds: list[Hashable] = [self._kinds.kind_without_shape(v) for v in step.equations]
        lists = [[numbers[x] for x in v.operands] for v in step.equations]
        if group is not None:
            lists += [[numbers[v] for v in getattr(group, name)] for name in VALUE_LISTS]
            lists += sorted(numbers[v] for v in group.reduced_values), [numbers[group.root]] if group.root else []
            kinds += [getattr(group, name) for name in PLAIN_SLOTS if name != "shape"]
            kinds.append(len(group.prologue))
        return tuple(kinds), lists


class PlanWriter:
    """Makes a plan of steps like those of another."""

    def __init__(self, like: PlanRows, inputs: Sequence[Value]) -> None:
        """`inputs`: by their numbers."""
        self._like = like
        self.values = dict(enumerate(inputs))
        self.graph = Graph(like.plan.graph.name)
        self.views = {v: StridedView.in_memory(v) for v in inputs}
        self.maker: dict[Value, Group] = {}
        self.order: list[Group] = []
        self.kernels: dict[Group, Kernel] = {}
        self.elided: set[Group] = set()
        self.unlowered: list[Group] = []  # without a kernel yet

    def add_step(self, like: PlanStep, numbers: list[int]) -> None:
        """Append a group like another's, of the values with these numbers.

        Raises: KeyError if one is not made yet, ValueError if it is of another shape or type.
        """
        values, views, former_views, at = self.values, self.views, self._like.plan.fusion.views, 0
        for v in like.equations:
            count = len(v.operands)
            operands = [values[x] for x in numbers[at : at + count]]
            at += count
            for x, other in zip(operands, v.operands, strict=True):
                if x.shape != other.shape or x.dtype != other.dtype:
                    raise ValueError
            inputs: Operands = tuple(operands)
            if len(v.inputs) != count:
                following = iter(operands)
                inputs = tuple([next(following) if type(x) is Value else x for x in v.inputs])
            params = v.params
            if params and v.op.name in PLACES:
                params, at = move_places(v, numbers, at)
            made = Value(v.op, inputs, params, v, v.origin)
            number = len(values)
            values[number] = made
            _, shape, strides, _ = former_views[v]
            views[made] = StridedView(values[numbers[at]], shape, strides, numbers[at + 1])
            at += 2
            self.graph.equations.append(made)
        if like.group is not None:
            take = iter(numbers[at:])
            self._add_kernel(like.group, self._add_group(like.group, take), take)

    def add_longer_step(self, like: PlanStep, lists: list[list[int]]) -> None:
        """Append a step like another's that reads more: of shapes of its own, with a kernel of its own.

        Raises: KeyError, ValueError.
        """
        values, rest = self.values, iter(lists)
        for v in like.equations:
            operands = iter([values[x] for x in next(rest)])
            if len(v.operands) == len(v.inputs):
                inputs: Operands = tuple(operands)
            else:
                inputs = tuple([next(operands) if type(x) is Value else x for x in v.inputs])
            made = Value(v.op, inputs, v.params, v, v.origin)
            spec = spec_of(made)
            made.shape, made.dtype = spec.shape, spec.dtype
            if strided_view_of(made, self.views) is None:
                raise ValueError
            self.views.setdefault(made, StridedView.in_memory(made))
            values[len(values)] = made
            self.graph.equations.append(made)
        former = like.group
        if former is None:
            return
        if former.prologue or former.gate_width or (former in self._like.plan.kernels and former.root is None):
            raise ValueError
        group = self._add_group(former, iter([x for numbers in rest for x in numbers]))
        if group.root is not None:
            group.shape = group.root.shape
        if former in self._like.plan.kernels:
            self.unlowered.append(group)

    def _add_group(self, like: Group, take: Iterator[int]) -> Group:
        """Append a group without its kernel."""
        values = self.values
        group: Group = object.__new__(Group)
        for name in VALUE_LISTS:
            values_of = getattr(like, name)
            setattr(group, name, [values[next(take)] for _ in values_of] if values_of else [])
        group.reduced_values = {values[next(take)] for _ in like.reduced_values}
        group.root = None if like.root is None else values[next(take)]
        for name in PLAIN_SLOTS:
            setattr(group, name, getattr(like, name))
        group.first = len(self.order)
        group.ids, group.ancestors, group.needs, group.users = 1 << group.first, 0, set(), set()
        self.maker.update((v, group) for v in group.equations)
        self.order.append(group)
        if like in self._like.plan.fusion.elided_concats:
            self.elided.add(group)
        return group

    def _add_kernel(self, like: Group, group: Group, take: Iterator[int]) -> None:
        values, kernel = self.values, self._like.plan.kernels.get(like)
        if kernel is not None:
            arguments = [values[next(take)] for _ in kernel.arguments]
            moved = [next(take) for _ in kernel.numbers]
            self.kernels[group] = Kernel(
                kernel.name, kernel.code, arguments, group, kernel.tiles, kernel.scratch, kernel.generator, moved
            )
