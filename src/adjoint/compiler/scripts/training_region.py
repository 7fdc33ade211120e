"""A training region of a running program: observed eagerly, then compiled; eager again where that is faster."""

from __future__ import annotations

import ast
import os
import sys
import traceback
from collections.abc import Sequence
from time import perf_counter
from types import FrameType

from adjoint.compiler.compile import CompiledFunction
from adjoint.compiler.ir.graph import TraceError
from adjoint.compiler.scripts.deferred_calls import find_book, reaches_training_state
from adjoint.compiler.scripts.name_uses import find_index_names
from adjoint.compiler.scripts.region_binding import UNBOUND, BoundRegion, find_batches, find_common_names, holds_array
from adjoint.compiler.scripts.region_start import widen_start
from adjoint.compiler.scripts.region_syntax import RegionSyntax, calls_method
from adjoint.compiler.scripts.region_times import CALLS_ON_TRIAL, RegionTimes
from adjoint.core.graph.node import next_sequence_nr
from adjoint.core.runtime.exchange_log import CallLog
from adjoint.core.runtime.mode import has_interpreter
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.typing import Function

OBSERVED_CALLS = 2  # run eagerly: the first makes gradients and moments, the second is what is usual
NO_FORWARD = "the forward pass is in other lines than its backward()"
NO_TRAINING = "no graph is recorded in these lines, and no optimizer steps"
MAX_ITEMS = 64  # of a container that are looked at
all_regions: list[TrainingRegion] = []


class TrainingRegion:
    """The run-time side of a training region, whose functions the rewritten program adds.

    `begin()` tells where this call's region begins: at one of the starts, or, where it is their number, nowhere, for
    all of it runs eagerly. In its first calls it does, and `mark` finds the statement that begins the forward pass.
    A number beyond that is for the parts of a region which has been given up.
    """

    def __init__(self, path: str, syntax: RegionSyntax) -> None:
        block = syntax.place.block
        starts = syntax.starts
        self.path, self.last_line = os.path.relpath(path), block[syntax.stop - 1].end_lineno
        self.lines = [block[position].lineno for position in starts]
        self.called = [_find_dotted_names(block[position], ast.Call) for position in starts]
        self.written = [_find_written(block[position]) for position in starts]
        self.named = {name for each in syntax.statements for name in _find_dotted_names(each, ast.expr)}
        self.has_backward = any(calls_method(each, {"backward"}) for each in syntax.statements)
        self.indices = find_index_names(syntax.statements)
        self.is_functional, self.has_parts = syntax.is_functional, bool(syntax.parts)
        self.books = [find_book(call) for _, call in syntax.deferred]  # names of objects that only keep books
        self.functions: list[Function] = []
        self.widened = [widen_start(syntax, start) - starts[0] for start in starts]  # by which to begin, at best
        self.choice: int | None = None
        self.compiled: BoundRegion | None = None
        self.reason: str | None = None  # why the region runs eagerly
        self.observed_calls = 0
        self.observed: list[dict[str, object]] = []  # the names at the beginning of the latest of these calls
        self.first_node = 0  # of the graph of the call that is observed
        self.common_names: set[str] = set()
        self.batch_names: set[str] = set()
        self.forward_starts: set[int] = set()  # whose statements were seen to begin a forward pass
        self.times = RegionTimes()
        self.began = [0.0] * (len(starts) + 1)  # when each statement of an eager call that is timed began
        self.eager_calls = 0  # after the choice
        self.is_sample = False  # the call that runs is eager for comparison
        all_regions.append(self)

    def add(self, function: Function) -> Function:
        """Take the function of the next start: a decorator."""
        self.functions.append(function)
        return function

    def begin(self) -> int:
        """Return the start of this call's region, or the number of starts to run it eagerly."""
        if has_interpreter():
            return len(self.functions)  # within a step that is traced: it compiles these lines
        if self.choice is not None and not (self.compiled and self.times.wants_sample):
            self.eager_calls += self.compiled is None
            return self.choice
        self.is_sample = self.choice is not None
        if not self.is_sample:
            del self.observed[self.observed_calls :]  # of a call that left the region before its end
            del self.observed[: len(self.observed) - OBSERVED_CALLS + 1]
            self.observed.append(dict(sys._getframe(1).f_locals))
            self.first_node = next_sequence_nr()
        self.began[0] = perf_counter()
        return len(self.functions)

    def mark(self, choice: int) -> None:
        """Take note that the statement of this start has run eagerly."""
        if self.choice is not None and not self.is_sample:
            return
        self.began[choice + 1] = perf_counter()
        is_new = choice not in self.forward_starts and not self.is_sample
        if is_new and self.begins_forward(choice, sys._getframe(1)):
            self.forward_starts.add(choice)

    def begins_forward(self, choice: int, frame: FrameType) -> bool:
        """Tell whether a statement that has just run records a graph, or calls a module: a target network's, say."""
        written = (_resolve(frame, name) for name in self.written[choice])
        return any(map(_has_graph, written)) or any(_is_module(_resolve(frame, name)) for name in self.called[choice])

    def end(self) -> None:
        """Take note that an eager call is over; after the first of them choose a start."""
        if (self.choice is not None and not self.is_sample) or has_interpreter():
            return
        now, eager, frame = perf_counter(), len(self.functions), sys._getframe(1)
        if self.is_sample and self.choice is not None:
            self.is_sample = False
            self.times.note_eager(now - self.began[self.choice])
            return
        if self.first_seen == eager:  # the last statement has no mark
            values = [_resolve(frame, name) for name in self.named]
            steps = any(hasattr(value, "param_groups") and hasattr(value, "zero_grad") for value in values)
            if steps or self.is_functional or self.begins_forward(eager - 1, frame):
                self.forward_starts.add(eager - 1)
        if self.first_seen < eager:
            self.times.note_eager(now - self.began[self.widened[self.first_seen]])
        self.observed_calls += 1
        is_due = self.first_seen == eager or self.times.is_due(next_sequence_nr() - self.first_node)
        if self.observed_calls >= OBSERVED_CALLS and is_due:
            self.choose(self.first_seen)
            for name in self.books:  # behind the step they would come too late for it
                if reaches_training_state(_resolve(frame, name)):
                    self.run_eagerly(f"a method of {name}, which holds what is trained, is called within")

    def choose(self, start: int) -> None:
        """Compile the region from this start on, or a little ahead of it, from the next call."""
        if start < len(self.functions):
            self.common_names = find_common_names(self.observed)
            self.batch_names = find_batches(self.observed)
            self.compile_from(self.widened[start])
        else:
            self.reason = NO_FORWARD if self.has_backward else NO_TRAINING
            self.choice = start
        self.observed.clear()

    def compile_from(self, start: int) -> None:
        """Compile the region from this start on."""
        self.choice = start
        names = self.common_names, self.indices, self.batch_names
        self.compiled = BoundRegion(self.functions[start], *names, compile_function=self.compile_function)
        for call in self.observed:
            self.compiled.learn(call)

    def compile_function(self, function: Function) -> CompiledFunction:
        """The function compiled, within the budget of the region."""
        compiled = CompiledFunction(function)
        compiled.budget = self
        return compiled

    def run(self, start: int, *names: object) -> object:
        """Run the region from this start on, compiled; where that cannot be, eagerly from now on."""
        compiled, began = self.compiled, perf_counter()
        if compiled is None:
            return self.functions[start](*names)
        try:
            result = compiled(*names)
        except TraceError as error:
            from adjoint.compiler.cuts.replay import finish_eagerly  # needs llvmlite, as no eager region does

            self.give_up(error)
            return finish_eagerly(self.functions[start], names, {}, error.log or CallLog())
        except TypeError as error:
            if not holds_array(names):
                raise
            self.give_up(error, "a NumPy array, of which each call brings another, is in a container that it takes")
            return self.functions[start](*names)
        if self.times.note_compiled(perf_counter() - began):
            reason = self.times.review(compiled.compilations)
            if reason is not None:
                self.run_eagerly(reason)
        return result

    def may_add_program(self) -> bool:
        """Tell whether one more program may be made for a call that has none."""
        return self.compiled is None or self.times.can_afford(self.compiled.compilations)

    def note_eager_call(self) -> None:
        """Take note that the call which runs does so eagerly, for want of a program."""
        self.times.note_refusal()

    def find_values(self, error: BaseException, names: Sequence[str]) -> list[object]:
        """The values that the region's function had computed when it raised an error; UNBOUND for others."""
        frames = self.find_frames(error)
        if not frames:
            return [UNBOUND] * len(names)
        names_of_frame, names_of_module = frames[-1][0].f_locals, frames[-1][0].f_globals
        return [names_of_frame.get(name, names_of_module.get(name, UNBOUND)) for name in names]

    def find_frames(self, error: BaseException) -> list[tuple[FrameType, int]]:
        """The frames of the region's functions that an error came through, innermost last, each with its line."""
        codes = {function.__code__ for function in self.functions}
        return [each for each in traceback.walk_tb(error.__traceback__) if each[0].f_code in codes]

    def give_up(self, error: BaseException, reason: str = "") -> None:
        """Begin the region further on from the next call on, or run it eagerly."""
        start = self.find_later_start(error)
        if start is None:
            self.run_eagerly(reason or str(error).splitlines()[0])
        else:
            self.compile_from(start)

    def find_later_start(self, error: BaseException) -> int | None:
        """The next place at which to begin: the forward pass, then that behind the statement that raised the error."""
        assert self.choice is not None
        if self.choice < self.first_seen:
            return self.first_seen
        frames = self.find_frames(error)
        if not frames:
            return None
        stop = sum(line <= frames[-1][1] for line in self.lines)  # the start behind the statement
        later = [start for start in self.forward_starts if start >= stop]
        return max(self.widened[min(later)], stop) if later else None

    def run_eagerly(self, reason: str) -> None:
        """Run the region eagerly from the next call on, or its parts, if it has several."""
        self.reason, self.compiled, self.choice = reason, None, len(self.functions) + self.has_parts

    def describe(self) -> str:
        """A line of the report."""
        if self.reason is not None:
            return f"{self.place}  eager: {self.reason}"
        times = self.times
        if not times.compiled_calls:
            return f"{self.place}  eager: it ran {pluralize(self.observed_calls, 'time')} only"
        average, usual = times.total_seconds / times.compiled_calls, times.typical_seconds
        eager = f", {times.refused_calls:,} of them eagerly, as few are alike" if times.refused_calls else ""
        return (
            f"{self.place}  {pluralize(times.compiled_calls, 'call')}{eager}, "
            f"{average * 1e3:.3g} ms each with compilation, usually {usual * 1e3:.3g} ms, "
            f"{times.eager_seconds * 1e3:.3g} ms eagerly"
        )

    @property
    def place(self) -> str:
        """The file and the lines that are compiled; those of all of the region where none are."""
        start = self.choice if self.compiled is not None and self.choice is not None else 0
        return f"{self.path}:{self.lines[start]}-{self.last_line}"

    @property
    def first_seen(self) -> int:
        """The first start that was seen to begin a forward pass; the number of starts if none was."""
        return min(self.forward_starts, default=len(self.functions))

    @property
    def is_training(self) -> bool:
        """Tell whether the lines have trained something, as far as is known: `env.step(action)` has not."""
        has_run = bool(self.observed_calls or self.times.compiled_calls)
        is_part = self.reason == NO_FORWARD and self.eager_calls < CALLS_ON_TRIAL  # of a region that is compiled
        return has_run and self.reason != NO_TRAINING and not is_part


def report_regions() -> str:
    """Tell of the regions that have run: what was compiled, what was not and why, and the time that it saved."""
    seen = [region for region in all_regions if region.is_training]
    if not seen:
        return "no training step was found: no lines that have run call backward() or an optimizer's step()"
    compiled = [region for region in seen if region.reason is None and region.times.compiled_calls]
    saved = sum(region.times.saved_seconds for region in seen)
    head = f"{len(compiled)} of {pluralize(len(seen), 'training region')} compiled, {saved:.3g} s saved"
    return "\n".join([head, *(f"  {region.describe()}" for region in seen)])


def make_regions(path: str, regions: Sequence[RegionSyntax]) -> list[TrainingRegion]:
    """The run-time sides of a file's training regions."""
    return [TrainingRegion(path, region) for region in regions]


def _find_written(statement: ast.stmt) -> list[str]:
    """The dotted names that a statement writes, or whose items it writes."""
    found = []
    for node in ast.walk(statement):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            place = node.value if isinstance(node, ast.Subscript) else node
            found += [ast.unparse(place)] if _is_dotted(place) else []
    return found


def _has_graph(value: object, depth: int = 3) -> bool:
    """Tell whether a value is a tensor that an op made and that requires a gradient, or holds one."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple) and depth:
        return any(_has_graph(item, depth - 1) for item in value[:MAX_ITEMS])
    return getattr(value, "grad_fn", None) is not None


def _find_dotted_names(statement: ast.stmt, kind: type[ast.expr]) -> list[str]:
    """The dotted names in a statement; of a `kind` ast.Call those that are called."""
    nodes = (node for node in ast.walk(statement) if isinstance(node, kind))
    found = [node.func if isinstance(node, ast.Call) else node for node in nodes]
    return [ast.unparse(node) for node in found if _is_dotted(node)]


def _is_dotted(expression: ast.expr) -> bool:
    while isinstance(expression, ast.Attribute):
        expression = expression.value
    return isinstance(expression, ast.Name)


def _resolve(frame: FrameType, name: str) -> object:
    first, *rest = name.split(".")
    value = frame.f_locals.get(first, frame.f_globals.get(first))
    for attribute in rest:
        value = getattr(value, "__dict__", {}).get(attribute) or getattr(value, "_modules", {}).get(attribute)
    return value


def _is_module(value: object) -> bool:
    return callable(getattr(value, "forward", None)) and callable(getattr(value, "parameters", None))
