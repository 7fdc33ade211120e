"""Rules on writes: data that changes with each pass, and values that are written behind the graph's back."""

from __future__ import annotations

import ast
from typing import TypeGuard

from adjoint.core.graph.source_location import InstructionLocation, Site, library_files
from adjoint.core.op.op import Op
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.mutation_log import mutation_log, owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place, place_of_instruction
from adjoint.diagnosis.source_expressions import SourceFile, parse_source, text_of
from adjoint.diagnosis.watch.events import Backward, ModuleCall, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.frames import find_library_call
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.diagnosis.watch.source_lines import nodes_at

SCANNED_PASSES = 32
READS = frozenset({"index", "index_select", "gather"})  # ops that copy parts of their first operand
MAX_EXPANDED = 32  # tensors of a pass


def is_instruction(place: Site | InstructionLocation | None) -> TypeGuard[InstructionLocation]:
    """Return whether a write's place is an instruction of the program, and not a line that NumPy code wrote at."""
    return place is not None and not isinstance(place, Site)


def instruction_of_write(x: Tensor) -> InstructionLocation | None:
    """Return the user's instruction that last wrote into a tensor's memory."""
    memory: Operand = owner(x.array)
    write = mutation_log.by_memory.get(id(memory))
    return write.place if write is not None and is_instruction(write.place) else None


def place_of_write(location: InstructionLocation | None) -> Place | None:
    """Return the line of a write, unless it is the library's own."""
    return None if location is None or library_files[location[0].co_filename] else place_of_instruction(location)


class RepeatedWrite(WatchRule):
    """In-place arithmetic on data that later steps read again: a dataset that changes with every pass."""

    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.samples: dict[int, tuple[Operand, int]] = {}
        self.parts: set[int] = set()  # memory of which models get a part
        self.sources: dict[int, Operand] = {}  # memory from which copies of parts are read, in the first passes
        self.writes: dict[tuple[int, Operand, int], tuple[Operand, set[int], tuple[Operand, int]]] = {}

    def enter_module(self, call: Operand) -> None:
        if call.parent is not None or not call.is_recording:
            return
        for x in call.tensors():
            if not is_array(x) or x.node is not None:
                continue
            made = self.facts.flow.maker(x) if self.facts.flow.is_open else None
            if made is not None and made.op in READS and made.tensors and is_array(made.tensors[0]):
                source: Operand = owner(made.tensors[0].array)
                self.sources[id(source)] = source
            memory: Operand = owner(x.array)
            write = mutation_log.by_memory.get(id(memory))
            if write is not None and is_instruction(write.place):
                self._note_write(memory, write)
                if x.array.size < getattr(memory, "size", 0):
                    self.parts.add(id(memory))

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        memory: Operand = None if target is None or target.node is not None else owner(target.array)
        write = mutation_log.by_memory.get(id(memory))
        if target is None or write is None or not is_instruction(write.place):
            return
        if target.array.size < getattr(memory, "size", 0):
            self._note_write(memory, write)

    def _note_write(self, memory: Operand, write: Operand) -> None:
        place = write.place
        key = id(memory), place[0], place[1]
        known = self.writes.get(key)
        if known is None:
            self.writes[key] = memory, {write.sequence_nr}, place
        else:
            known[1].add(write.sequence_nr)

    def begin_backward(self, backward: Backward) -> None:
        """Look for data that is changed where it is kept: samples of a dataset, and what batches are read from."""
        if backward.iteration >= SCANNED_PASSES:
            return
        for key, memory in self.sources.items():
            write = mutation_log.by_memory.get(key)
            if write is not None and is_instruction(write.place):
                self._note_write(memory, write)
        # a copy in one step: a list of its items makes objects, and the collector may take entries out meanwhile
        for key, write in mutation_log.by_memory.copy().items():
            if is_instruction(write.place) and write.place[0].co_name == "__getitem__":
                known = self.samples.get(key)
                memory = write.memory()
                if known is None or known[0] is not memory:
                    self.samples[key] = memory, write.sequence_nr
                elif write.sequence_nr > known[1]:
                    self._note_write(memory, write)
                    self.writes[key, write.place[0], write.place[1]][1].add(-1)  # the first time

    def finish(self) -> None:
        for key, (_, numbers, place) in self.writes.items():
            if len(numbers) < 2:
                continue
            where = place_of_instruction(place)
            source = parse_source(where.site.file)
            # elements of a part of data, which other steps read at other places
            is_part = key[0] in self.parts or (source is not None and _is_part_of_data(source, where.site))
            is_set = is_part and bool(_stored_name(where.site))
            if source is None or not (is_set or _arithmetic_nodes(source, where.site.line)):
                continue
            name = _stored_name(where.site)
            self.report(
                "data-changed-in-place",
                where,
                name,
                f"{name} is changed in place in "
                f"{pluralize(len(numbers), 'step')}, and its "
                "memory is the data itself: each pass over the data sees other values",
                "make a new tensor: x = x - …, in place of x -= …, or clone() the batch first",
                len(numbers),
            )


def _is_part_of_data(source: SourceFile, site: Site) -> bool:
    """Return whether the line of a write sets elements of what its function took by index from an attribute."""
    name = _stored_name(site)
    for line in source.nodes_of(ast.Assign):
        value = line.value
        is_taken = isinstance(value, ast.Subscript) and isinstance(value.value, ast.Attribute)
        scope = source.scope_of(line)
        is_here = isinstance(scope, ast.FunctionDef) and scope.lineno <= site.line <= (scope.end_lineno or 0)
        if is_taken and is_here and text_of(line.targets[0]) == name:
            return getattr(scope, "name", "") == "__getitem__"
    return False


INPLACE_METHODS = frozenset(
    {"add_", "sub_", "mul_", "div_", "clamp_", "neg_", "pow_", "sqrt_", "abs_", "addcmul_", "copy_"}
)


def _arithmetic_nodes(source: SourceFile, line: int) -> list[ast.AST]:
    nodes: list[ast.AugAssign | ast.Call] = [
        *source.nodes_of(ast.AugAssign),
        *source.calls_of(*sorted(INPLACE_METHODS)),
    ]
    return [node for node in nodes if node.lineno <= line <= (node.end_lineno or 0)]


def _written_name(source: SourceFile, line: int) -> str:
    for node in _arithmetic_nodes(source, line):
        if isinstance(node, ast.AugAssign):
            return text_of(node.target)
        written: ast.AST = node
        while isinstance(written, ast.Call) and isinstance(written.func, ast.Attribute):
            written = written.func.value  # of the first of calls in a row
        return text_of(written)
    return "the data"


class ExpandedWrite(WatchRule):
    """A write into the result of `expand`, whose rows are one and the same memory."""

    ops = frozenset({"expand"})
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.expanded: list[tuple[Operand, int, tuple[int, ...]]] = []  # memory, its last write before, the shape

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        array = out.array
        if out.node is not None or all(array.strides) or len(self.expanded) >= MAX_EXPANDED:
            return
        if find_library_call("expand", "expand_as", "broadcast_to") is not None:
            memory: Operand = owner(array)
            write = mutation_log.by_memory.get(id(memory))
            self.expanded.append((memory, -1 if write is None else write.sequence_nr, array.shape))

    def begin_backward(self, backward: Backward) -> None:
        for each in list(self.expanded):
            memory, before, shape = each
            write = mutation_log.by_memory.get(id(memory))
            if write is None or write.sequence_nr <= before or not is_instruction(write.place):
                continue
            self.expanded = [other for other in self.expanded if other is not each]
            place = place_of_instruction(write.place)
            name = _stored_name(place.site)
            problem = (
                f"{name or 'what expand() gave'} {tuple(shape)} is written, and its rows are the same memory: the "
            )
            problem += "write changes all of them"
            self.report("shared-memory", place, name or "expand", problem, "clone() it first, or repeat()", shape)


def _stored_name(site: Site) -> str:
    """Return the name whose element a line sets, or that it calls a method of."""
    source = parse_source(site.file)
    for node in nodes_at(Place(site), ast.Subscript):
        if isinstance(node.ctx, ast.Store):
            return text_of(node.value)
    return "" if source is None else _written_name(source, site.line)


class HiddenWrite(WatchRule):
    """A write through `.data` into a value that a recorded op has made: the gradient does not know of it."""

    def begin_backward(self, backward: Backward) -> None:
        found = self.facts.data_writes
        for memory, before, name, place in self.facts.data_reads:
            write = mutation_log.by_memory.get(id(memory))
            if write is not None and write.sequence_nr > before:
                found.append((name, place))
        for name, place in found:
            self.report(
                "data-write",
                place,
                name,
                f"{name} is written through .data after the op that made it was recorded: backward() computes the "
                "gradient as if it had not been",
                "use a recorded op in place of it, such as clamp() or where(), and assign the result",
            )
        self.facts.data_reads.clear()
        found.clear()


class OverwrittenShortcut(WatchRule):
    """An in-place activation of a block's input, which the block then adds to its result."""

    ops = frozenset({"add"})
    max_passes = 2

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.versions: dict[int, tuple[Operand, int]] = {}  # of the inputs of the blocks that run

    def enter_module(self, call: ModuleCall) -> None:
        if call.parent is None:
            self.versions.clear()
        if call.is_recording and self.facts.iteration < 2 and call.module._modules:
            for x in call.tensors():
                if x.node is not None:
                    self.versions[id(x)] = x, x._version

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        for x in inputs[:2]:
            known = self.versions.get(id(x)) if self.versions else None
            if known is None or known[0] is not x or x._version == known[1]:
                continue
            memory: Operand = owner(x.array)
            write = mutation_log.by_memory.get(id(memory))
            if write is None or not is_instruction(write.place):
                continue
            place = place_of_instruction(write.place)
            source = parse_source(place.site.file)
            if source is None or any(isinstance(n, ast.AugAssign) for n in _arithmetic_nodes(source, place.site.line)):
                continue
            where = caller_place().site.describe_briefly()
            name = type(x.node.op).__name__ if not hasattr(x.node, "op") else x.node.op.name
            problem = (
                f"{name} in place changes the block's input {tuple(x.shape)}, which {where} adds to the result: the "
            )
            problem += "shortcut is not the input"
            self.report(
                "in-place-residual", place, name, problem, "inplace=False, or clone() the input", tuple(x.shape)
            )
            self.versions.clear()
            return

    def begin_backward(self, backward: Backward) -> None:
        self.versions.clear()
