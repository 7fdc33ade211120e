"""One trace from beginning to end: what the step read and did in Python becomes guards and effects, and is undone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from adjoint.compiler.build import Entry, build, conclude
from adjoint.compiler.ir.graph import TraceError
from adjoint.compiler.passes.partition import Derived, derive
from adjoint.compiler.trace.frames import MISSING, Attribute, Contents, Place, Witness, Write
from adjoint.compiler.trace.frames.constants import is_plain
from adjoint.compiler.trace.frames.container_snapshot import snapshot
from adjoint.compiler.trace.frames.sources import tensors_in
from adjoint.compiler.trace.guards import ArgumentGuard, PlaceGuard
from adjoint.compiler.trace.step_outputs import Effect, Outcome, Results, outcome_of
from adjoint.compiler.trace.symbolic_number import is_number
from adjoint.compiler.trace.tracer import Location, Tracer
from adjoint.core.graph.source_location import Site, user_frame
from adjoint.core.runtime import pytree
from adjoint.core.runtime.gc_pause import uncollected
from adjoint.core.tensor.tensor import Tensor


class Session:
    """What is put in place for one trace, and what is found when it is over."""

    def __init__(self, name: str, promoted: dict[Any, Place], varying: Sequence[int], settled: bool) -> None:
        self.name = name
        self.promoted = promoted
        self.varying = varying  # which leaves of the arguments are numbers that each call brings
        self.settled = settled  # all the same the program is for these alone
        self._arguments: dict[int, Any] = {}  # the containers among the arguments: of this call
        self.witness = Witness(self._refuse)
        self.tracer = Tracer(name, self._location, self._is_set)
        self.tracer.on_filled = self._filled
        self._places: dict[int, list[Place]] = {}
        self._indexed = 0  # how many reads these are of
        self._bound: dict[int, Place] = {}  # tensors that are found anew in each call: their places

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Entry, Callable[[], None]]:
        """The program of a call of `function`, and what takes back the state that the trace made."""
        with uncollected():
            return self._run(function, args, kwargs)

    def _run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Entry, Callable[[], None]]:
        failed = True
        try:
            leaves, structure = pytree.flatten((args, kwargs))
            leaves, given = self._given(leaves)
            args, kwargs = pytree.unflatten(structure, iter(leaves))
            self._note_containers((args, kwargs))
            with self._numbers(), self.witness.watching(function):
                try:
                    result = self.tracer.trace(function, args, kwargs)
                    outcome, results = outcome_of(self.tracer, result, given)
                    self._refuse_symbols(outcome)
                    self._effects(outcome, results)
                    derived = self._derive(results)
                finally:
                    self._take_back()
            self._guards(outcome, given)
            traced = conclude(self.tracer, outcome, results, given, derived)
            failed = False
        finally:
            self.tracer.restore(failed)
        try:
            return build(traced), self.tracer.take_back
        except BaseException:
            self.tracer.take_back()
            raise

    def _derive(self, results: Results) -> Derived:
        """The gradient of the results, for a `backward()` outside. Hooks run now, and must not do more than compute."""
        before = len(self.witness.writes)
        derived = derive(self.tracer, results.tensors)
        for write in self.witness.writes[before:]:
            raise TraceError(
                f"a hook or Function changes the {write.place.what} at {write.site} in the backward pass of "
                f"{self.name!r}, which is compiled with the step, while backward() is called outside: call backward() "
                "inside the step, or compile with fallback=True to run it eagerly"
            )
        return derived

    def _given(self, leaves: list[Any]) -> tuple[list[Any], list[Any]]:
        """Arguments with symbols in them: the leaves, and those of them that each call brings anew."""
        given: list[Any] = []
        for i, x in enumerate(leaves):
            if isinstance(x, Tensor):
                self.tracer.bind_argument(x, len(given), f"{len(given)}")
                given.append(x)
            elif i in self.varying:
                name = f"x{len(given)}"
                number = self.tracer.arithmetic.given(name, x, lambda _, n=name: n, f"argument {i}")  # type: ignore[misc]
                leaves[i] = number.settled() if self.settled else number
                given.append(number)
        return leaves, given

    def _note_containers(self, value: Any) -> None:
        if isinstance(value, (list, tuple, dict)) or hasattr(type(value), "__dataclass_fields__"):
            self._arguments[id(value)] = value
            parts = value if isinstance(value, (list, tuple)) else (value if isinstance(value, dict) else vars(value))
            for part in parts.values() if isinstance(parts, dict) else parts:
                self._note_containers(part)

    @contextmanager
    def _numbers(self) -> Iterator[None]:
        """Put a `Number` where a number has changed from call to call."""
        kept = []
        try:
            for i, place in enumerate(self.promoted.values()):
                value = place.read()
                if type(value) in (int, float):
                    kept.append((place, value))
                    place.write(self.tracer.arithmetic.given(f"p{i}", value, place.expression, place.what))
            yield
        finally:
            for place, value in kept:
                if is_number(place.read()):
                    place.write(value)

    def _location(self, tensor: Tensor) -> Location | None:
        """Where a captured tensor is found, if another may take its place: no parameter, without history."""
        if type(tensor) is not Tensor or tensor.node is not None:
            return None
        places = self._found().get(id(tensor), [])
        if len(places) != 1:
            return None
        (place,) = places
        self._bound[id(tensor)] = place

        def locate() -> Any:
            found = place.read()
            return found if type(found) is Tensor else None

        return locate, place.expression

    def _found(self) -> dict[int, list[Place]]:
        """The places of each tensor that the step read so far."""
        reads = self.witness.reads
        for read in reads[self._indexed :]:
            for place, tensor in tensors_in(read.place, read.value, self.witness.as_before):
                self._places.setdefault(id(tensor), []).append(place)
        self._indexed = len(reads)
        return self._places

    def _filled(self, container: Any) -> None:
        self.witness.past.meet(container)
        self.witness.change(container, user_frame(sys._getframe(1)))

    def _is_set(self, holder: Any, key: Any) -> bool:
        place = Contents(holder)
        return any(write.place == place and key in write.keys for write in self.witness.writes)

    def _refuse(self, what: str, site: Site) -> None:
        raise TraceError(
            f"the step {self.name!r} {what} at {site}. A compiled step runs its Python once, so that this would happen "
            "in the first call only: do it outside of the step, or compile with fallback=True to run it eagerly."
        )

    def _refuse_symbols(self, outcome: Outcome) -> None:
        for leaf in outcome.leaves:
            if leaf.kind == "object" and (name := _symbolic(leaf.of)):
                raise TraceError(
                    f"the step {self.name!r} returns a {type(leaf.of).__name__}, whose {name} is a tensor made by the "
                    "step: return tensors, or tuples, lists, dicts and dataclasses of them"
                )

    def _effects(self, outcome: Outcome, results: Results) -> None:
        """What the step wrote into Python objects, to be written again by each call."""
        for write in self.witness.writes:
            effect = self._effect(write, results, outcome)
            if effect is not None:
                for leaf in effect.leaves:
                    self._check_kept(leaf.of if leaf.kind == "object" else None, write)
                outcome.effects.append(effect)
        for function, argument, _ in self.tracer.deferred:
            leaves, structure = results.leaves(argument)
            outcome.effects.append(Effect(function, structure, leaves, "a call at the end"))

    def _effect(self, write: Write, results: Results, outcome: Outcome) -> Effect | None:
        place, before = write.place, write.before
        if id(place.holder) in self._arguments:
            raise TraceError(
                f"the step {self.name!r} changes an argument ({place.what}) at {write.site}, of which each call brings "
                "another: return what is to be changed, or change a copy"
            )
        if isinstance(place, Contents):
            how, value, whole = _difference(place, before, write.keys)
            self._ignore(place.holder)
            if whole:
                outcome.guards.append(PlaceGuard(place, snapshot(before), write.site))
        else:
            how, value = place.write, place.read()
            if value is before:
                return None
            if isinstance(place, Attribute):
                self._ignore(place.holder, place.name)
        if how is None:
            return None
        leaves, structure = results.leaves(value)
        return Effect(how, structure, leaves, place.what)

    def _ignore(self, holder: Any, name: str | None = None) -> None:
        """What the step sets in a module itself is no reason to trace again: where it reads it, it is guarded.

        That is the attribute `name` of the module `holder`, or the container `holder` in an attribute of any.
        """
        for watch in self.tracer.watches:
            if watch.contents is None:
                continue
            if name is None:
                found = [key for key, value in vars(watch.subject).items() if value is holder]
            else:
                found = [name] if watch.subject is holder else []
            watch.ignored |= frozenset(found)

    def _check_kept(self, value: Any, write: Write) -> None:
        known = is_plain(value) or isinstance(value, (Tensor, type, np.ndarray)) or value is MISSING or callable(value)
        if not known and not self.witness.knows(value):
            raise TraceError(
                f"the step {self.name!r} keeps a {type(value).__name__} which it made itself ({write.place.what}), at "
                f"{write.site}: a compiled step can keep tensors, numbers, and lists, tuples and dicts of them"
            )

    def _take_back(self) -> None:
        """Python as it was before the step."""
        for write in reversed(self.witness.writes):
            if isinstance(write.place, Contents) or write.place.read() is not write.before:
                write.place.write(write.before)

    def _guards(self, outcome: Outcome, given: list[Any]) -> None:
        numbers = {id(x): i for i, x in enumerate(given) if isinstance(x, Tensor)}
        used = {id(x) for x in self.tracer.met()} | {
            id(leaf.of) for leaf in outcome.every_leaf() if leaf.kind == "object"
        }
        for read in self.witness.reads:
            if is_number(read.value):
                continue
            whole = isinstance(read.value, Tensor)
            if not whole:
                outcome.guards.append(PlaceGuard(read.place, read.value, read.site))
            for place, tensor in tensors_in(read.place, read.value, self.witness.as_before):
                bound = self._bound.get(id(tensor))
                if id(tensor) in numbers:
                    outcome.guards.append(ArgumentGuard(place, numbers[id(tensor)], read.site))
                elif bound != place and (whole or bound is not None or id(tensor) in used):
                    outcome.guards.append(PlaceGuard(place, tensor, read.site))


def traced(
    function: Callable[..., Any],
    name: str,
    args: Any,
    kwargs: Any,
    promoted: dict[Any, Place] | None = None,
    varying: Sequence[int] = (),
    settled: bool = False,
) -> tuple[Entry, Callable[[], None]]:
    """The program of one call, and what is to be done if that fails at once.

    The numbers at the places `promoted`, and those among the leaves of the arguments that are `varying`, are inputs of
    the program; the latter are `settled` if it is for these numbers alone.
    """
    return Session(name, promoted or {}, varying, settled).run(function, args, kwargs)


def to_promote(changes: list[Any]) -> dict[Any, Place]:
    """The places of numbers among the guards that failed."""
    found = {}
    for guard in changes:
        if isinstance(guard, PlaceGuard) and not isinstance(guard.place, Contents):
            now = guard.place.read()
            if type(now) in (int, float) and type(guard.expected) is type(now):
                found[guard.place.key] = guard.place
    return found


def _difference(place: Contents, before: Any, keys: list[Any]) -> tuple[Callable[[Any], Any] | None, Any, bool]:
    """How to repeat what was done to a container: a function and its argument; whether that needs the old contents."""
    holder = place.holder
    if isinstance(holder, list):
        n = len(before)
        changed = {i: v for i, (a, v) in enumerate(zip(before, holder, strict=False)) if a is not v or i in keys}
        if len(holder) >= n and not changed:
            return (holder.extend, holder[n:], False) if len(holder) > n else (None, None, False)
        if len(holder) == n and all(i in keys for i in changed):
            return partial(_set_items, holder), changed, False
        return place.write, list(holder), True
    if isinstance(holder, dict):
        changed = {k: v for k, v in holder.items() if k not in before or before[k] is not v or k in keys}
        if all(k in holder for k in before):
            return (partial(_set_items, holder), changed, False) if changed else (None, None, False)
        return place.write, dict(holder), True
    if isinstance(holder, set) and holder >= before:
        return (holder.update, tuple(holder - before), False) if len(holder) > len(before) else (None, None, False)
    return place.write, holder.copy() if isinstance(holder, np.ndarray) else list(holder), True


def _set_items(holder: Any, items: dict[Any, Any]) -> None:
    for key, value in items.items():
        holder[key] = value


def _symbolic(value: Any) -> str | None:
    """The attribute of an object that is a tensor without values; None if there is none."""
    for name, held in getattr(value, "__dict__", {}).items():
        if isinstance(held, Tensor) and type(held.array) is not np.ndarray and not isinstance(value, Tensor):
            return str(name)
    return None
