"""One trace from beginning to end: what the step read and did in Python becomes guards and effects, and is undone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.compiler.build import CompiledEntry, FinishedTrace, build, finish_trace
from adjoint.compiler.ir.graph import HandlerError, OverlapError, StaticSizeError, TextReadError, TraceError
from adjoint.compiler.log import LOGGED, log
from adjoint.compiler.passes.partition import TracedBackward, trace_backward
from adjoint.compiler.progress import progress
from adjoint.compiler.runtime.observer_self_test import check_python
from adjoint.compiler.trace.events.host_calls import call_for_step
from adjoint.compiler.trace.events.loop_watch import LoopWatch, OutlineFoundError
from adjoint.compiler.trace.events.step_events import Outcome, StepEvent, StepEvents
from adjoint.compiler.trace.frames import (
    MISSING,
    AttributeSource,
    ContentsSource,
    FrameObserver,
    ItemSource,
    ObservedWrite,
    Source,
)
from adjoint.compiler.trace.frames.constants import is_plain
from adjoint.compiler.trace.frames.container_snapshot import find_replay, snapshot
from adjoint.compiler.trace.frames.host_functions import HostFunction, HostFunctions
from adjoint.compiler.trace.frames.replaced_container import PartsSource, ReplacedContainers, parts_of, read_tensor
from adjoint.compiler.trace.frames.sources import tensors_in
from adjoint.compiler.trace.guards import (
    ArgumentAttributeGuard,
    ArgumentGuard,
    SameTensorGuard,
    SourceGuard,
    guard_default_dtype,
)
from adjoint.compiler.trace.numbers.symbolic_number import fixed_code, is_symbolic_number
from adjoint.compiler.trace.result_table import ResultTable, collect_effects, find_symbolic_attribute
from adjoint.compiler.trace.step_outputs import Effect, StepEffects
from adjoint.compiler.trace.suspension import TraceSuspension, handlers_outside
from adjoint.compiler.trace.tracer import Location, Tracer
from adjoint.core.graph.source_location import Site, user_frame
from adjoint.core.runtime import pytree
from adjoint.core.runtime.gc_pause import gc_paused
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, Operand, Operands

if TYPE_CHECKING:
    from adjoint.compiler.cuts.staged_entry import StagedEntry
    from adjoint.compiler.trace.guards import Guard
    from adjoint.compiler.trace.signature import Signature


class StepTrace:
    """One trace: the observers that it installs, and the facts that they collect."""

    def __init__(
        self,
        name: str,
        dynamic_sources: dict[object, Source],
        scalar_arguments: Sequence[int],
        specialize_arguments: bool,
        log: list[Outcome],
        dynamic_dims: Mapping[int, Sequence[int]],
        watches_loops: bool,
    ) -> None:
        self.name = name
        self.dynamic_sources = dynamic_sources
        self.scalar_arguments = scalar_arguments  # which leaves of the arguments are numbers that each call brings
        self.dynamic_dims = dynamic_dims  # of the leaves of the arguments
        self.specialize_arguments = specialize_arguments  # all the same the program is for these alone
        self._arguments: dict[int, object] = {}  # the containers among the arguments: of this call
        self.observer = FrameObserver(self._refuse)
        self.tracer = Tracer(name, self._location, self._is_set)
        self.tracer.on_container_write = self._record_container_write
        self.tracer.find_kept = self.kept_values
        self.tracer.on_location_fixed = self.forget_location
        self.events = self.tracer.events = StepEvents(self.tracer, log)
        self.events.observed = lambda: len(self.observer.reads)
        self.events.has_changed = lambda thing: any(write.place.holder is thing for write in self.observer.writes)
        self.observer.hosts = HostFunctions(self.call_host)
        self.observer.texts.arithmetic = self.tracer.arithmetic
        if watches_loops:
            self.observer.end_turn = LoopWatch(self.tracer, self.observer, self.kept_values).end_turn
        self._reads_of_guards: dict[int, int] = {}  # by the identity of a guard: the number of the read it is for
        self._probe_guards = self.tracer.probe_guards
        self._substituted: list[tuple[Source, object]] = []  # places of numbers that symbols have taken, for now
        self._sources: dict[int, list[Source]] = {}
        self._indexed = 0  # how many reads these are of
        self._replaced = ReplacedContainers()  # known when the step has run
        self._source_by_tensor: dict[int, Source] = {}  # tensors that are found anew in each call: their places

    def run(
        self, function: Function, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[CompiledEntry | StagedEntry, Callable[[], None]]:
        """The program of a call of `function`, and what takes back the state that the trace made."""
        suspension = TraceSuspension(self.tracer, self.observer, self._substituted)
        take_back, events, sizes = self.tracer.take_back, self.events, self.tracer.sizes
        with gc_paused(), progress.compilation(self.name):
            try:
                with handlers_outside(suspension.suspend):
                    traced = self._trace(function, args, kwargs, suspension)
            except Exception as error:
                if any(error is raised for raised in suspension.handler_errors):
                    raise HandlerError(error) from None
                raise
            finally:
                self.observer.preexisting.forget()
                self.events.end()
                del self.tracer, self.observer, self.events  # which refer to each other: cycles wait for the collector
            try:
                with handlers_outside(suspension.outer_modes):  # passes trace patterns
                    if not events.events:
                        return build(traced, reruns_eagerly=True, sizes=sizes), take_back
                    from adjoint.compiler.cuts.stages import AskingTrace, build_staged

                    return build_staged(AskingTrace(traced, events, self._is_guard_of, sizes)), take_back
            except BaseException:
                take_back()
                raise

    def _trace(
        self, function: Function, args: tuple[object, ...], kwargs: dict[str, object], suspension: TraceSuspension
    ) -> FinishedTrace:
        failed = True
        try:
            leaves, structure = pytree.flatten((args, kwargs))
            leaves, given = self._bind_arguments(leaves)
            args, kwargs = pytree.unflatten(structure, iter(leaves))
            self._note_containers((args, kwargs))
            with self._substitute_numbers(), self.observer.observe(function):
                try:
                    result = self.tracer.trace(function, args, kwargs)
                    if self.events.refusal is not None:
                        raise self.events.refusal
                    self._relocate_parts()
                    outcome, results = collect_effects(self.tracer, result, given, self.kept_values())
                    self._refuse_symbols(outcome)
                    self._collect_effects(outcome, results)
                    derived = self._trace_backward(results)
                finally:  # Python as it was before the step
                    for write in reversed(self.observer.writes):
                        if isinstance(write.place, ContentsSource) or write.place.read() is not write.before:
                            write.place.write(write.before)
            self._collect_guards(outcome, given)
            traced = finish_trace(self.tracer, outcome, results, given, derived)
            progress.finish(f"{pluralize(len(traced.graph.equations), 'equation')} traced")
            if "trace" in LOGGED:
                log("trace", f"{self.name}: {traced.graph.count_equations()}, {outcome.count_effects()}")
            if suspension.was_disturbed:
                raise OverlapError("a signal handler has changed what the step began with")
            failed = False
            return traced
        finally:
            self.tracer.restore(failed)
            self.events.values.restore()

    def call_host(self, host: HostFunction, args: Operands, kwargs: dict[str, Operand]) -> Operand:
        """The result of a host function, called for the step that is traced."""
        return call_for_step(self.events, host, args, kwargs)

    def _trace_backward(self, results: ResultTable) -> TracedBackward:
        """The gradient of the results, for a `backward()` outside. Hooks run now, and must not do more than compute."""
        before = len(self.observer.writes)
        self.tracer.can_repeat = False
        derived = trace_backward(self.tracer, results.tensors, results.made_leaves.keys())
        for write in self.observer.writes[before:]:
            raise TraceError(
                f"a hook or Function changes the {write.place.what} at {write.site} in the backward pass of "
                f"{self.name!r}, which is compiled with the step, while backward() is called outside: call backward() "
                "inside the step, or compile with fallback=True to run it eagerly"
            )
        return derived

    def _bind_arguments(self, leaves: list[Any]) -> tuple[list[object], list[Any]]:
        """Arguments with symbols in them: the leaves, and those of them that each call brings anew."""
        given: list[Operand] = []
        leaves = [self.observer.stand_in(x) for x in leaves]
        for i, x in enumerate(leaves):
            if isinstance(x, Tensor):
                self.tracer.bind_argument(x, len(given), f"{len(given)}", i, self.dynamic_dims.get(i, ()))
                given.append(x)
            elif i in self.scalar_arguments:
                name = f"x{len(given)}"
                number = self.tracer.arithmetic.add_source(name, x, partial(fixed_code, name), f"argument {i}")
                leaves[i] = number.specialize() if self.specialize_arguments else number
                given.append(number)
        self.events.start(len(given), self.specialize_arguments)
        return leaves, given

    def _note_containers(self, value: object) -> None:
        if isinstance(value, (list, tuple, dict)) or hasattr(type(value), "__dataclass_fields__"):
            self._arguments[id(value)] = value
            parts = value if isinstance(value, (list, tuple)) else (value if isinstance(value, dict) else vars(value))
            for part in parts.values() if isinstance(parts, dict) else parts:
                self._note_containers(part)

    @contextmanager
    def _substitute_numbers(self) -> Iterator[None]:
        """Put a `Number` where a number has changed from call to call."""
        kept = self._substituted
        try:
            for i, place in enumerate(self.dynamic_sources.values()):
                value = place.read()
                if type(value) in (int, float):
                    kept.append((place, place.read_own()))
                    place.write(self.tracer.arithmetic.add_source(f"p{i}", value, place.expression, place.what))
            yield
        finally:
            for place, value in kept:
                if is_symbolic_number(place.read()):
                    place.write(value)

    def _location(self, tensor: Tensor) -> Location | None:
        """Return the place of a captured tensor that another may replace: no parameter, without history."""
        if type(tensor) is not Tensor or tensor.node is not None:
            return None
        places = self._index_sources().get(id(tensor), [])
        if len(places) != 1:
            return None
        place = self._replaced.find(places[0])
        self._source_by_tensor[id(tensor)] = place
        return partial(read_tensor, place), place.expression

    def _relocate_parts(self) -> None:
        """Look for the parts of lists and dicts that the step replaced in those that are there in each call."""
        self._replaced = ReplacedContainers(self.observer.reads, self.observer.writes)
        for tensor, _, symbol in self.tracer.state:
            place = self._source_by_tensor.get(id(tensor))
            if place is not None and place != (moved := self._replaced.find(place)):
                self._source_by_tensor[id(tensor)] = moved
                symbol.source = symbol.source._replace(locate=partial(read_tensor, moved), expression=moved.expression)

    def forget_location(self, tensor: Tensor) -> None:
        """Look for this very tensor in each call, not for what is then in its place."""
        self._source_by_tensor.pop(id(tensor), None)

    def _index_sources(self) -> dict[int, list[Source]]:
        """The places of each tensor that the step read so far."""
        reads = self.observer.reads
        for read in reads[self._indexed :]:
            for place, tensor in tensors_in(read.place, read.value, self.observer.as_before):
                self._sources.setdefault(id(tensor), []).append(place)
        self._indexed = len(reads)
        return self._sources

    def _record_container_write(self, container: object) -> None:
        self.observer.preexisting.add(container)
        self.observer.change(container, user_frame(sys._getframe(1)))

    def _is_set(self, holder: object, key: object) -> bool:
        place = ContentsSource(holder)
        return any(write.place == place and key in write.keys for write in self.observer.writes)

    def _refuse(self, what: str, site: Site) -> None:
        raise TraceError(
            f"the step {self.name!r} {what} at {site}. A compiled step runs its Python once, so that this would happen "
            "in the first call only: do it outside of the step, or compile with fallback=True to run it eagerly."
        )

    def _refuse_symbols(self, outcome: StepEffects) -> None:
        for leaf in outcome.leaves:
            if leaf.kind == "object" and (name := find_symbolic_attribute(leaf.of)):
                raise TraceError(
                    f"the step {self.name!r} returns a {type(leaf.of).__name__}, whose {name} is a tensor made by the "
                    "step: return tensors, or tuples, lists, dicts and dataclasses of them"
                )

    def _collect_effects(self, outcome: StepEffects, results: ResultTable) -> None:
        """Collect the step's writes into Python objects, which each call repeats."""
        for write in self.observer.writes:
            effect = self._make_effect(write, results, outcome)
            if effect is not None:
                for leaf in effect.leaves:
                    self._check_can_keep(leaf.of if leaf.kind == "object" else None, write)
                outcome.effects.append(effect)
        for function, argument, _ in self.tracer.deferred:
            leaves, structure = results.leaves(argument)
            outcome.effects.append(Effect(function, structure, leaves, "a call at the end"))
        results.collect_rebindings()

    def kept_values(self) -> Iterator[object]:
        """Yield what the step put into Python objects, and what calls at its end take."""
        for write in self.observer.writes:
            yield write.place.holder if isinstance(write.place, ContentsSource) else write.place.read()
        yield from (argument for _, argument, _ in self.tracer.deferred)

    def _make_effect(self, write: ObservedWrite, results: ResultTable, outcome: StepEffects) -> Effect | None:
        place, before = write.place, write.before
        if id(place.holder) in self._arguments:
            raise TraceError(
                f"the step {self.name!r} changes an argument ({place.what}) at {write.site}, of which each call brings "
                "another: return what is to be changed, or change a copy"
            )
        if isinstance(place, ContentsSource):
            how, value, whole = find_replay(place.holder, place.write, before, write.keys)
            self._ignore_own_writes(place.holder)
            if whole:  # what it held before and holds still is put there again
                self.observer.read_before(write, snapshot(before))
        else:
            how, value = place.write, place.read()
            located = self._source_by_tensor.get(id(value), place)
            if value is before and located == place and self.observer.has_read(place):
                return None  # a guard says so of each call
            if isinstance(place, AttributeSource):
                self._ignore_own_writes(place.holder, place.name)
        if how is None:
            return None
        leaves, structure = results.leaves(value)
        return Effect(how, structure, leaves, place.what)

    def _ignore_own_writes(self, holder: object, name: str | None = None) -> None:
        """Exempt attributes that the step itself sets from the module's guards: those that it reads have their own.

        That is the attribute `name` of the module `holder`, or the container `holder` in an attribute of any.
        """
        for watch in self.tracer.probe_guards:
            if watch.contents is None:
                continue
            if name is None:
                found = [key for key, value in vars(watch.subject).items() if value is holder]
            else:
                found = [name] if watch.subject is holder else []
            watch.ignored |= frozenset(found)

    def _check_can_keep(self, value: object, write: ObservedWrite) -> None:
        known = is_plain(value) or isinstance(value, (Tensor, type, np.ndarray)) or value is MISSING or callable(value)
        if not known and not self.observer.is_preexisting(value):
            raise TraceError(
                f"the step {self.name!r} keeps a {type(value).__name__} which it made itself ({write.place.what}), at "
                f"{write.site}: a compiled step can keep tensors, numbers, and lists, tuples and dicts of them"
            )

    def _collect_guards(self, outcome: StepEffects, given: list[Operand]) -> None:
        """Append the guards of what the step has read.

        A tensor that was only passed along need not be the same one next time; one whose elements the program reads, or
        which it hands out, must be. An attribute of an argument is looked up in whichever tensor the next call brings,
        every other place where it was found. A tensor that is also an argument, or lies in a second place, must be that
        same tensor in the next call, for the program has one input for both.
        """
        outcome.guards.append(guard_default_dtype())
        tensors = [(i, x) for i, x in enumerate(given) if isinstance(x, Tensor)]
        numbers = {id(x): i for i, x in tensors}
        of_argument = numbers | {id(vars(x)): i for i, x in tensors}
        used = {id(x) for x in self.tracer.captured_tensors()} | {
            id(leaf.of) for leaf in outcome.all_output_refs() if leaf.kind == "object"
        }
        for number, read in enumerate(self.observer.reads):
            if is_symbolic_number(read.value):
                continue
            before = len(outcome.guards)
            whole, replaced = isinstance(read.value, Tensor), self._replaced
            if id(read.place.holder) in of_argument and isinstance(read.place, AttributeSource | ItemSource):
                argument = of_argument[id(read.place.holder)]
                outcome.guards.append(ArgumentAttributeGuard(read.place.name, read.value, argument, read.site))
            elif replaced.has(read.value):
                outcome.guards.append(SourceGuard(PartsSource(read.place), parts_of(read.value), read.site))
            elif not whole and not replaced.is_within(read.place):
                outcome.guards.append(SourceGuard(read.place, read.value, read.site))
            for known, tensor in tensors_in(read.place, read.value, self.observer.as_before):
                place = replaced.find(known)
                bound = self._source_by_tensor.get(id(tensor))
                if id(tensor) in numbers:
                    outcome.guards.append(ArgumentGuard(place, numbers[id(tensor)], read.site))
                elif bound is not None and bound != place:
                    outcome.guards.append(SameTensorGuard(place, bound, read.site))
                elif bound is None and (whole or id(tensor) in used):
                    outcome.guards.append(SourceGuard(place, tensor, read.site))
                self.tracer.guard_on_metadata(tensor)
            self._reads_of_guards.update((id(guard), number) for guard in outcome.guards[before:])
        for watch in self.tracer.probe_guards:
            for held in watch.held or ():
                if isinstance(held, Tensor):
                    self.tracer.guard_on_metadata(held)

    def _is_guard_of(self, guard: Guard, event: StepEvent) -> bool:
        """True if the step had relied on the guard's fact when it came to the event."""
        number = self._reads_of_guards.get(id(guard))
        if number is not None:
            return number < event.mark.reads
        return not any(guard is probe for probe in self._probe_guards[event.mark.probes :])


def trace_step(
    function: Function,
    name: str,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    signature: Signature,
    scalar_arguments: Sequence[int] = (),
    specialize_arguments: bool = False,
    log: list[Outcome] | None = None,
    dynamic_dims: Mapping[int, Sequence[int]] = MappingProxyType({}),
    watches_loops: bool = False,
) -> tuple[CompiledEntry | StagedEntry, Callable[[], None]]:
    """The program of one call, and what is to be done if that fails at once.

    The numbers at the places `signature.dynamic_sources`, and those among the leaves of the arguments that are
    `scalar_arguments`, are inputs of the program; the latter are `specialize_arguments` if it is for these numbers
    alone. The sizes of leaves in `dynamic_dims` are symbols. What stands in `log` took place in this call already; what
    takes place in the trace is added to it. `watches_loops`: raise OutlineFoundError at one to be outlined.
    """
    check_python()
    options = specialize_arguments, [] if log is None else log, dynamic_dims, watches_loops
    trace = StepTrace(name, signature.dynamic_sources, scalar_arguments, *options)
    trace.tracer.arithmetic.texts.may_show = not signature.looks_into_texts
    try:
        return trace.run(function, args, kwargs)
    except TextReadError:
        if log or signature.entries or signature.looks_into_texts:  # what took place did so with such texts
            raise
        signature.looks_into_texts = True
        return trace_step(function, name, args, kwargs, signature, scalar_arguments, *options)
    except (StaticSizeError, OverlapError, OutlineFoundError):
        raise
    except Exception as error:
        if dynamic_dims:  # with numbers for sizes the step may do, or fail in its own words
            raise StaticSizeError([(i, d) for i, dims in dynamic_dims.items() for d in dims]) from error
        raise
