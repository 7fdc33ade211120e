"""Tying a program's values to memory: arguments, captured state, settings, results, gradients, and the arena."""

from __future__ import annotations

import ctypes
import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from adjoint.compiler.cache.object_cache import compile_kernel
from adjoint.compiler.ir.graph import Argument, Constant, Graph, ScalarInput, Setting, StateInput, Value
from adjoint.compiler.ir.strided_view import StridedView, apply_view, is_expanded_input
from adjoint.compiler.ir.symbolic_size import SizeRelations, has_symbols, size_value
from adjoint.compiler.kernels.kernel import Kernel
from adjoint.compiler.llvm.jit.engine import load
from adjoint.compiler.passes.cost_model import estimate_seconds
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.passes.memory_plan import MemoryPlan, Span, aligned_array, aligned_bytes, plan_memory
from adjoint.compiler.program.arena_spans import ArenaSpans, ReadersByValue, can_overwrite_once
from adjoint.compiler.program.kernel_table import ArenaViews, KernelTable, SizeRows, array_at, array_type
from adjoint.compiler.program.placed_gradients import BoundBuffer, GradientSlot
from adjoint.compiler.progress import progress
from adjoint.compiler.runtime.native_entry import Check, KernelCall, Segment
from adjoint.compiler.trace.step_outputs import StepEffects
from adjoint.compiler.trace.symbolic_strides import lies_with_strides
from adjoint.core.runtime.exchange_log import ExchangeTimes
from adjoint.core.runtime.threads import get_num_threads
from adjoint.core.typing import Array

# once their shapes agree
FAMILIES_THAT_NEVER_RAISE = ("contraction", "convolution", "random", "cat", "movement", "boundary")

WrapKernel = Callable[[Group, KernelCall], KernelCall]


class Binding:
    """The memory of every value of a graph, and the tables of pointers that kernels read."""

    def __init__(self, graph: Graph, fusion: Fusion, kernels: dict[Group, Kernel], outcome: StepEffects) -> None:
        self.graph, self.fusion, self.kernels, self.outcome = graph, fusion, kernels, outcome
        self.step = {group: i for i, group in enumerate(fusion.order)}
        self._number = {v: i for i, v in enumerate(graph.equations)}
        calls = [group for group in fusion.order if group.call and _may_raise(group.equations[0])]
        self._raising = [(group, self._number[group.equations[0]]) for group in calls]
        self.buffers: dict[Value, BoundBuffer] = {}
        self.local_names: dict[Value, str] = {}  # memory that each call brings or makes, by its name there
        self.fresh: dict[str, Value] = {}  # results: the names of new arrays
        self.result_names: list[str] = []
        self.saved_names: list[str] = []
        self.gradients: list[GradientSlot] = []
        self.copies_in: list[Value] = []  # states whose memory kernels cannot take as it lies
        self.copies_out: list[tuple[Value | GradientSlot, Value]] = []  # (target, value) to copy when all is computed
        self.numbers = [
            *graph.inputs_of_kind(Setting),
            *graph.inputs_of_kind(ScalarInput),
        ]  # Python's, put into memory at each call
        self.settings = array_type(ctypes.c_double, max(1, len(self.numbers)))()
        self.integers = array_type(ctypes.c_int64, len(self.settings)).from_buffer(self.settings)  # the same memory
        self.exchanged_in_place: set[Value] = set()  # what exchanges leave in memory of their own
        self.exchange_times: dict[Value, ExchangeTimes] = {}
        self._views: dict[str, StridedView] = {}  # operands of calls, by name
        self._sized_views: dict[str, StridedView] = {}  # those of them that are others for other sizes
        self._arena_views = ArenaViews()
        readers = _collect_readers(fusion)
        self._place_inputs()
        self._place_results()
        self._place_gradients()
        self._place_writes(readers)
        self._place_sums()
        self.sizes = graph.sizes or SizeRelations()
        self._last_sizes = dict(self.sizes.values)
        self.capacity = dict(self.sizes.values)  # of the arena: the largest sizes so far, or more
        self._readers = readers
        self.plan: MemoryPlan = self._place_in_arena(readers)
        self._engine = load(_compile_kernels(kernels.values()))
        self.threads = max(get_num_threads(), os.cpu_count() or 1)  # for which there is scratch memory
        self._scratch = self._make_scratch()
        self._make_tables()

    def _make_scratch(self) -> Array:
        """The scratch memory of all threads, for the largest sizes so far."""
        with self.sizes.bounding(self.capacity):
            return aligned_bytes(max((size_value(k.scratch) for k in self.kernels.values()), default=0) * self.threads)

    def _place_inputs(self) -> None:
        for i, v in enumerate(self.numbers):
            numbers = np.ctypeslib.as_array(self.integers if v.dtype.kind == "i" else self.settings)
            self.buffers[v] = BoundBuffer(numbers[i : i + 1].reshape(()))
        for v in self.graph.inputs_of_kind(Constant):
            array = aligned_array(v)
            array[...] = v.source.array
            self.buffers[v] = BoundBuffer(array)
        for v in self.graph.inputs_of_kind(Argument):
            self.local_names[v] = f"a{v.source.number}"
        for v in self.graph.inputs_of_kind(StateInput):
            array = v.source.locate().array
            if not _is_usable(v, array):
                self.copies_in.append(v)
                array = aligned_array(v)
            self.buffers[v] = BoundBuffer(array)

    def _place_results(self) -> None:
        for values, names in ((self.outcome.results, self.result_names), (self.outcome.saved, self.saved_names)):
            for v in values:
                if v not in self.local_names:
                    name = f"o{len(self.fresh)}"
                    self.fresh[name] = v
                    self.local_names[v] = name
                names.append(self.local_names[v])

    def _is_placed(self, v: Value) -> bool:
        return v in self.buffers or v in self.local_names

    def _place_gradients(self) -> None:
        for _, v in self.outcome.gradients:
            if v is not None:
                slot = GradientSlot(v)
                self.gradients.append(slot)
                if self._is_placed(v):
                    self.copies_out.append((slot, v))
                else:
                    self.buffers[v] = slot.buffer

    def _place_writes(self, readers: ReadersByValue) -> None:
        """A new value is written straight over the old one if nobody needs the old one by then."""
        shared = {x for relation in self.outcome.memory.relations for x in relation[:2]}
        for symbol, v in self.outcome.writes:
            if self._is_placed(v) or symbol in shared or not self._may_overwrite(symbol, v, readers.get(symbol, [])):
                self.copies_out.append((symbol, v))
            elif symbol in self.buffers:
                self.buffers[v] = self.buffers[symbol]
            else:
                self.local_names[v] = self.local_names[symbol]

    def _place_sums(self) -> None:
        """Leave sums of gradients in the memory of their exchange, unless that is filled again in the same program."""
        exchanges = [v for v in self.graph.equations if "bucket" in v.params]
        uses = Counter(id(v.params["bucket"]) for v in exchanges)
        for v in exchanges:
            bucket = v.params["bucket"]
            alone = uses[id(bucket)] == 2 and v not in self.fusion.placed_in_concat
            if v.op.name == "finish_all_reduce" and alone and not self._is_placed(v):
                self.buffers[v] = BoundBuffer(bucket.memory)
                self.exchanged_in_place.add(v)
            elif v.op.name == "start_all_reduce":  # it gives nothing
                self.exchanged_in_place.add(v)

    def _may_overwrite(self, symbol: Value, v: Value, reads: list[tuple[Group, StridedView]]) -> bool:
        """`reads`: of the old value. Before the last step that may raise, what an error leaves must be right."""
        group = self.fusion.maker.get(v)
        if group is None or group.call or symbol in self.copies_in:
            return False
        # after an error the step runs eagerly: it writes a row anew, which nothing has read, and raises in its turn
        again = self.outcome.reruns_eagerly and v.op.name == "put_slice" and [g for g, _ in reads] == [group]
        if self.step[group] < self._last_step_that_may_raise(self._number[v] if again else len(self._number)):
            return False
        if any(self.step[other] > self.step[group] for other, _ in reads):
            return False
        return can_overwrite_once(self.fusion, v, symbol)

    def is_written_in_place(self, group: Group) -> bool:
        """True if a group's root writes into the memory of its first operand."""
        from adjoint.compiler.kernels.gather_scatter.scatter import FORMS_WITH_START

        root = group.root
        if root is None or group.call or root.op.name not in FORMS_WITH_START or root not in group.stored:
            return False
        former = self.fusion.views[root.operands[0]].base
        if root in self.buffers and former in self.buffers:
            return bool(self.buffers[root].array.ctypes.data == self.buffers[former].array.ctypes.data)
        return root in self.local_names and self.local_names[root] == self.local_names.get(former)

    def last_step_that_may_raise(self) -> int:
        """The last step that values can make fail: a check, or a call of NumPy that may refuse them; -1 if none."""
        return self._last_step_that_may_raise(len(self._number))

    def _last_step_that_may_raise(self, end: int) -> int:
        """The last one of the equations before the number `end`: later ones come after in an eager run too."""
        return max((self.step[g] for g, number in self._raising if number < end), default=-1)

    def _place_in_arena(self, readers: ReadersByValue) -> MemoryPlan:
        """The arena holds what only the program sees, from the step that makes a value to the last that reads it."""
        spans = ArenaSpans(self.fusion, readers, [v for _, v in self.copies_out], self._is_placed)
        since = self.last_step_that_may_raise()  # until there, .grad stays as it was
        lending = [] if self.graph.symbols else self._late_gradients()  # an arena that grows moves no gradients
        late = [Span(v, spans.first[v], len(self.fusion.order)) for v in lending]
        with self.sizes.bounding(self.capacity):
            made = spans.add_shared_places(plan_memory(spans.spans, late, since))
        self.arena = aligned_bytes(made.size)
        for v, offset in made.offsets.items():
            self.buffers[v] = BoundBuffer(array_at(self.arena, offset, v))
        self._bind_lent_memory(made)
        return made

    def _late_gradients(self) -> list[Value]:
        """The gradients whose memory nobody reads in a step before they are made."""
        if any(isinstance(s.source, StateInput) and s.source.expression is not None for _, _, s in self.outcome.state):
            return []  # what a step finds in `.grad` it may read
        own = [s.value for s in self.gradients if self.buffers.get(s.value) is s.buffer]
        return [v for v in own if v in self.fusion.maker and v not in self.fusion.placed_in_concat]

    def _bind_lent_memory(self, made: MemoryPlan) -> None:
        """Put gradients into one block of memory, and with them what lies there before they are made."""
        block: Any = aligned_bytes(max((at + v.nbytes for v, at in made.lent_offsets.items()), default=0))
        for slot in self.gradients:
            if slot.value in made.lent_offsets:
                at = made.lent_offsets[slot.value]
                # over no array, so that it is the owner of its memory for whoever asks
                memory: Any = array_type(ctypes.c_ubyte, slot.value.nbytes).from_buffer(block, at)
                slot.replace_gradient(np.ndarray(slot.value.shape, slot.value.dtype, memory))
        for v, at in made.lent.items():
            self.buffers[v] = BoundBuffer(array_at(block, at, v))
        self.lends_gradient_memory = bool(made.lent)

    def renew_gradient(self, k: int) -> None:
        """New memory for a gradient that somebody keeps.

        A block of gradients ends then: each has memory of its own from now on, and so has what lay there before them.
        """
        late = self.plan.lent_offsets if self.lends_gradient_memory else {}
        if self.gradients[k].value not in late:
            self.gradients[k].replace_gradient()
            return
        for slot in self.gradients:
            if slot.value in late:
                slot.replace_gradient()
        own = aligned_bytes(max(at + v.nbytes for v, at in self.plan.lent.items()))
        for v, at in self.plan.lent.items():
            self.buffers[v].array = array_at(own, at, v)
        self.lends_gradient_memory = False

    def bind_at_each_call(self, numbers: dict[Value, str]) -> None:
        """Let each call bring the memory of these states, under the names given, in tables of its own from now on."""
        for symbol, name in numbers.items():
            moved = self.buffers[symbol]
            for v in [v for v, buffer in self.buffers.items() if buffer is moved]:  # and what is written over it
                del self.buffers[v]
                self.local_names[v] = name
        self._views.clear()
        self._sized_views.clear()
        self._arena_views = ArenaViews()
        self._make_tables()

    def _make_tables(self) -> None:
        symbols = tuple(self.sizes.values)
        self._tables = {group: KernelTable(kernel, symbols) for group, kernel in self.kernels.items()}
        self._size_rows = SizeRows([*self._tables.values()], self.sizes)
        self._conditions = {group: ctypes.c_void_p() for group in self.fusion.order if group.call}
        self._fill_tables()

    def _fill_tables(self) -> None:
        addresses = {v: buffer.array.ctypes.data for v, buffer in self.buffers.items()}
        for table in self._tables.values():
            table.fill(addresses, self._scratch.ctypes.data)
        self._size_rows.fill(self.sizes)
        for group, condition in self._conditions.items():
            if (view := self.condition_view(group)) is not None and view.base in self.buffers:
                condition.value = self.buffers[view.base].array.ctypes.data + view.offset

    def condition_view(self, group: Group) -> StridedView | None:
        """The truth value, in memory, that a check looks at; None if Python must look."""
        value = group.equations[0]
        if value.op.family != "check" or value in self.graph.outputs or not isinstance(value.inputs[0], Value):
            return None
        view = self.fusion.views.get(value.inputs[0]) or StridedView.whole(value.inputs[0])
        usable = view.base in self.buffers or (view.base in self.local_names and view.offset == 0)
        return view if usable and view.base.dtype.kind == "b" else None

    def is_native(self, group: Group) -> bool:
        """True for what a segment runs: a kernel, and a check whose truth value lies in memory."""
        return not group.call or self.condition_view(group) is not None

    def segment(self, groups: list[Group], wrap: WrapKernel | None = None) -> tuple[Segment, list[str]]:
        """The native call for consecutive kernels and checks, and the local arrays to pass it.

        `wrap` gives the call to make in place of a kernel's: one that also measures it.
        """
        arrays: list[str] = []
        bindings: list[tuple[int, int]] = []
        steps: list[KernelCall | Check] = []
        whole = divided = 0.0
        times: dict[str, float] = {}  # of equal kernels
        for group in groups:
            kernel, table = self.kernels.get(group), self._tables.get(group)
            start = ctypes.addressof(self._conditions[group]) if table is None else table.address
            view = None if kernel else self.condition_view(group)
            read = kernel.arguments if kernel else [view.base] if view else []
            for i, v in enumerate(read, kernel.first if kernel else 0):
                if v in self.local_names:
                    name = self.local_names[v]
                    if name not in arrays:
                        arrays.append(name)
                    bindings.append((arrays.index(name), start + 8 * i))
            if kernel is None or table is None:
                steps.append(Check(start))
                continue
            call = KernelCall(self._engine.address(kernel.name), start, table.tiles)
            steps.append(call if wrap is None else wrap(group, call))
            if kernel.name not in times:
                times[kernel.name] = estimate_seconds(group, self.fusion)
            time = times[kernel.name]
            whole += time
            divided += time if size_value(kernel.tiles) > 1 else 0.0
        return Segment(bindings, steps, (self, self._tables, self._conditions), whole, divided, self.threads), arrays

    def array_of(self, v: Value, names: dict[str, object]) -> str:
        """An expression for the array of a call's operand or target, in `names`; `refresh` keeps it up to date."""
        view = self.fusion.views.get(v) or StridedView.in_memory(v)
        if view.base in self.local_names:
            local = self.local_names[view.base]
            if view == StridedView.in_memory(view.base):
                return local
            name = f"view{len(names)}"
            names[name] = lambda array: apply_view(view, array)
            return f"{name}({local})"
        name = f"v{len(names)}"
        names[name] = apply_view(view, self.buffers[view.base].array)
        self._views[name] = view
        if has_symbols((view.base.shape, view.shape, view.strides, view.offset)):
            self._sized_views[name] = view
        return name

    def resize(self, values: tuple[int, ...], names: dict[str, object]) -> None:
        """Bring memory, tables and operands up to date with the sizes of a call.

        The arena is planned for the largest sizes so far; where they are outgrown, for twice those.
        """
        values_by_name = dict(zip(self.sizes.values, values, strict=True))
        self.sizes.values = self._last_sizes = values_by_name
        has_grown = any(n > self.capacity[name] for name, n in values_by_name.items())
        if has_grown:
            self.capacity = {
                name: self.capacity[name] if n <= self.capacity[name] else max(n, 2 * self.capacity[name])
                for name, n in values_by_name.items()
            }
            for v in self.plan.offsets:
                del self.buffers[v]
            self._arena_views = ArenaViews()
            self.plan = self._place_in_arena(self._readers)
            self._scratch = self._make_scratch()
            self._fill_tables()
        else:
            self._size_rows.fill(self.sizes)
        for name, view in (self._views if has_grown else self._sized_views).items():
            offset = self.plan.offsets.get(view.base)
            if offset is None:
                names[name] = apply_view(view, self.buffers[view.base].array)
            else:
                found = self._arena_views.find(name, view, values, self.arena, offset)
                self.buffers[view.base].array, names[name] = found
        names.update((f"last_{name}", n) for name, n in values_by_name.items())
        names["last_sizes"] = values_by_name

    def refresh(self, names: dict[str, object]) -> bool:
        """Bind the memory that captured tensors have now; False if it no longer fits what was traced."""
        moved, self.sizes.values = False, self._last_sizes
        for _, _, symbol in self.outcome.state:
            if isinstance(symbol.source, StateInput) and symbol not in self.copies_in:
                tensor = symbol.source.locate()
                if tensor is None or not _is_usable(symbol, tensor.array):
                    return False
                if tensor.array.shape != symbol.shape or tensor.array.dtype != symbol.dtype:
                    return False
                buffer = self.buffers.get(symbol)
                if buffer is not None and buffer.array is not tensor.array:
                    buffer.array, moved = tensor.array, True
        if moved:
            self.rebind_storage(names)
        return True

    def rebind_storage(self, names: dict[str, object]) -> None:
        """Bring tables and operands up to date with the buffers."""
        self._fill_tables()
        for name, view in self._views.items():
            names[name] = apply_view(view, self.buffers[view.base].array)


def _may_raise(v: Value) -> bool:
    """True if values can make NumPy refuse a call whose shapes agree; integers may be positions out of range."""
    op = v.op
    if op.family == "call":
        integers = any(isinstance(x, Value) and x.dtype.kind in "iu" for x in v.inputs)
        return bool(op.raises) or op.runs_user_code or integers
    return op.raises is True or op.family not in FAMILIES_THAT_NEVER_RAISE


def _compile_kernels(kernels: Iterable[Kernel]) -> list[bytes]:
    """The objects of kernels, each once."""
    codes = {kernel.name: kernel.code for kernel in kernels}
    objects = []
    for i, code in enumerate(codes.values()):
        progress.note(f"{i} of {len(codes)} kernels compiled")
        objects.append(compile_kernel(code))
    progress.finish(f"{len(codes)} different ones compiled")
    return objects


def _collect_readers(fusion: Fusion) -> ReadersByValue:
    """Return the groups that read each value in memory, with the view that they read."""
    readers: ReadersByValue = {}
    for group in fusion.order:
        for equation in group.equations:
            for operand in equation.operands:
                view = fusion.views[operand]
                readers.setdefault(view.base, []).append((group, view))
    return readers


def _is_usable(v: Value, array: Array) -> bool:
    """True if kernels can read the state `v`, and write it unless it is expanded, where this array lies."""
    return bool(array.flags.aligned) if is_expanded_input(v) else is_usable(array)


def has_layout_of(v: Value, array: Array) -> bool:
    """True if an array may be copied into the state `v`: of its shape and type, in the order of the trace."""
    return array.shape == v.shape and array.dtype == v.dtype and lies_with_strides(array, v.source.strides)


def is_usable(array: Array) -> bool:
    """True if kernels can read and write the array where it lies."""
    return bool(array.flags.c_contiguous and array.flags.aligned and array.flags.writeable)
