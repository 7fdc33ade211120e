"""The step that is exported: what it takes, gives and holds, and where; what cannot go is refused by its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from adjoint.compiler.ir.graph import Argument, ScalarInput, Setting, StateInput, Value
from adjoint.compiler.ir.strided_view import StridedView, is_expanded_input
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.kernels.lowerings import lower_all
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.program.export.memory_image import MemoryImage
from adjoint.compiler.program.export.targets import ExportTarget
from adjoint.compiler.program.placed_gradients import GradientSlot
from adjoint.compiler.program.program import Program
from adjoint.compiler.runtime.new_tensors import make_alias
from adjoint.compiler.trace.step_outputs import OutputRef
from adjoint.core.runtime import pytree
from adjoint.core.tensor.as_strided import element_strides
from adjoint.core.tensor.tensor import wrap
from adjoint.core.typing import Array, NumpyDtype, Shape

CONSTANT_KINDS = (type(None), bool, int, float, str)  # what a step may return besides tensors


class ExportError(RuntimeError):
    """A step does something that needs Python or NumPy, which are not where it goes."""


class PlacedArray(NamedTuple):
    """An array in the exported memory, in row-major order."""

    name: str
    offset: int
    dtype: NumpyDtype
    shape: Shape


class KernelLaunch(NamedTuple):
    """A kernel to run for each of its tiles, and the rows of its table: offsets in the memory, and numbers."""

    kernel: Kernel
    offsets: list[int]
    numbers: list[int]


class ValueCheck(NamedTuple):
    """A truth value that must hold, and what to say where it does not."""

    offset: int
    complaint: str


class StridedCopy(NamedTuple):
    """Elements to copy into memory when all is computed: into an array in row-major order, from a view."""

    target: int
    source: int
    itemsize: int
    shape: Shape
    strides: Shape


class ExportedStep:
    """A program's kernels for another machine, in order, over one block of memory.

    Raises: ExportError, which names what cannot be exported.
    """

    def __init__(self, program: Program, target: ExportTarget) -> None:
        self.program, self.target = program, target
        self.graph, self.binding, self.outcome = program.graph, program.binding, program.outcome
        faults = [*dict.fromkeys(self._find_faults())]
        if faults:
            raise ExportError(f"the step {self.graph.name!r} cannot be exported: {'; '.join(faults)}")
        kernels = lower_all(program.fusion, target)
        self.memory = MemoryImage(self.binding, [*kernels.values()])
        self._stand_ins: dict[Value, Array] = {}
        self.steps = [
            self._launch(kernels[group]) if group in kernels else self._check(group) for group in program.fusion.order
        ]
        self.copies = [*self._copies()]
        self.arguments = [*self._arguments()]
        self.settings = [*self._settings()]
        self.states = [*self._states()]
        self.results = [self._result(leaf) for leaf in self.outcome.leaves]

    @property
    def structure(self) -> pytree.Structure:
        """The structure that the results are put into."""
        return self.outcome.structure

    def _find_faults(self) -> Iterator[str]:
        """Yield what the step needs Python or NumPy for, in words."""
        outcome = self.outcome
        for group in self.program.fusion.order:
            if not self.binding.is_native(group):
                value = group.equations[0]
                yield f"NumPy computes {value.op.name}{_describe_site(value)}"
        for effect in outcome.effects:
            yield f"it changes a Python object in each call ({effect.what})"
        if outcome.rebindings:
            yield "it gives a tensor other memory (`.data =`)"
        if any(v.op.family == "collective" for v in self.graph.equations):
            yield "it exchanges tensors with other processes"
        numbers = {f"x{i}" for i in range(outcome.arguments)}
        for v in self.graph.inputs_of_kind(ScalarInput):
            if v.source.name not in numbers:
                yield f"Python computes a number in each call ({outcome.arithmetic.describe_code(v.source.name)})"
        if any(not line.name for line in outcome.arithmetic.lines):
            yield "it decides by a Python number of the call"
        for v in self.graph.inputs_of_kind(Argument):
            if isinstance(v.source.strides, tuple):
                yield f"argument {v.source.number} was given with strides {v.source.strides}: call the step with a copy"
        for leaf in outcome.leaves:
            if leaf.kind == "number" and leaf.of not in outcome.pending and leaf.of not in numbers:
                yield f"it returns a number that Python computes ({outcome.arithmetic.describe_code(leaf.of)})"
            if leaf.kind == "object" and not isinstance(leaf.of, CONSTANT_KINDS):
                yield f"it returns an object, of type {type(leaf.of).__name__}"

    def _launch(self, kernel: Kernel) -> KernelLaunch:
        memory = self.memory
        offsets = [] if kernel.generator is None else [memory.offset_of_generator(kernel)]
        offsets += [memory.offset_of(v) for v in kernel.arguments]
        return KernelLaunch(kernel, offsets + [memory.scratch] * bool(kernel.scratch), [*kernel.numbers])

    def _check(self, group: Group) -> ValueCheck:
        view, value = self.binding.condition_view(group), group.equations[0]
        assert view is not None
        said = value.params.get("complaint", f"a check failed ({value.op.name})")
        said = said.replace("{size}", str(value.params.get("size")))
        return ValueCheck(self.memory.offset_of(view.base) + view.offset, f"{said}{_describe_site(value)}")

    def _copies(self) -> Iterator[StridedCopy]:
        """Yield what a call copies at its end: states that are not written in place. Nobody reads `.grad` there."""
        for into, value in self.binding.copies_out:
            if not isinstance(into, GradientSlot):
                view = self.program.fusion.views.get(value) or StridedView.in_memory(value)
                size = value.dtype.itemsize
                source = self.memory.offset_of(view.base) + view.offset * size
                yield StridedCopy(self.memory.offset_of(into), source, size, view.shape, view.strides)

    def _arguments(self) -> Iterator[PlacedArray | None]:
        """Yield the place of each argument; None for one that nobody reads."""
        symbols: dict[int, Value] = {s.source.number: s for s in self.graph.inputs_of_kind(Argument)}
        symbols |= {int(s.source.name[1:]): s for s in self.graph.inputs_of_kind(ScalarInput)}
        for i in range(self.outcome.arguments):
            yield self._place(f"argument {i}", symbols[i]) if i in symbols else None

    def _settings(self) -> Iterator[PlacedArray]:
        symbols = self.graph.inputs_of_kind(Setting)
        for name, v in zip(_distinguish(v.source.name for v in symbols), symbols, strict=True):
            yield self._place(name, v)

    def _states(self) -> Iterator[PlacedArray]:
        symbols = [v for v in self.graph.inputs_of_kind(StateInput) if not is_expanded_input(v)]
        for name, v in zip(_distinguish(v.source.name or "tensor" for v in symbols), symbols, strict=True):
            yield self._place(name, v)
        memories = self.memory.generators()
        for name, (offset, memory) in zip(_distinguish("generator" for _ in memories), memories, strict=True):
            yield PlacedArray(name, offset, memory.dtype, memory.shape)

    def _place(self, name: str, v: Value) -> PlacedArray:
        return PlacedArray(name, self.memory.offset_of(v), v.dtype, v.shape)

    def _result(self, leaf: OutputRef) -> PlacedArray | object:
        """The place of a tensor that the step returns, copied if it has other strides; anything else is itself."""
        if leaf.kind == "object":
            return leaf.of
        if leaf.kind == "number":
            number = self.outcome.pending.get(leaf.of)
            return self.arguments[int(leaf.of[1:])] if number is None else self._result(OutputRef("result", number))
        base, array = self._array_of(leaf)
        offset = self.memory.offset_of(base) + array.ctypes.data - self._stand_in(base).ctypes.data
        if not array.flags.c_contiguous:
            source, offset = offset, self.memory.reserve(array.nbytes)
            self.copies.append(StridedCopy(offset, source, array.itemsize, array.shape, element_strides(array)))
        return PlacedArray("result", offset, array.dtype, array.shape)

    def _stand_in(self, v: Value) -> Array:
        """An array of the process that lies as a value does in the exported memory."""
        if v not in self._stand_ins:
            self._stand_ins[v] = np.empty(v.shape, v.dtype)
        return self._stand_ins[v]

    def _array_of(self, leaf: OutputRef) -> tuple[Value, Array]:
        """The value in whose memory a returned tensor lies, and an array that lies in its stand-in as that does."""
        if leaf.kind == "alias":
            alias = self.outcome.aliases[leaf.of]
            base, array = self._array_of(alias.base)
            return base, make_alias(wrap(array), alias).array
        if leaf.kind == "result":
            value = self.outcome.results[leaf.of]
            array, order = self._stand_in(value), self.outcome.result_facts[leaf.of].permutation
            return value, array if order is None else array.transpose(order)
        if leaf.kind == "argument":
            value = next(v for v in self.graph.inputs_of_kind(Argument) if v.source.number == leaf.of)
        elif leaf.kind == "gradient":
            value = next(v for place, v in self.outcome.gradients if place is leaf.of and v is not None)
        else:
            tensor = leaf.of()
            value = next(s for t, _, s in self.outcome.state if t is tensor)
        return value, self._stand_in(value)


def _distinguish(names: Iterable[str]) -> Iterator[str]:
    """Number the names that come again: lr, lr 2, lr 3."""
    uses = Counter[str]()
    for name in names:
        uses[name] += 1
        yield name if uses[name] == 1 else f"{name} {uses[name]}"


def _describe_site(value: Value) -> str:
    return "" if value.origin is None else f", at {value.origin.site.describe_briefly()}"
