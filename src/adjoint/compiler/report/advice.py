"""Advice on a compiled step: what its calls spend time on besides kernels, where, and what to write instead.

Only what was measured is told. A program that leaves nothing to Python or NumPy is not observed while it fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import ref

from adjoint.compiler.ir.graph import Argument
from adjoint.core.graph.source_location import Site, warn_user

if TYPE_CHECKING:
    from adjoint.compiler.program.program import Program
    from adjoint.compiler.trace.guards import GuardFailure
    from adjoint.core.typing import Function, Operand

OBSERVED_CALLS = 50  # after which a warning may come
FIRST_CALLS = 3  # of a program, which make what later ones find
EARLY_CALLS = 20  # of a function, in which programs are made and settle
MIN_COST_SECONDS = 20e-6  # in a call, below which nothing is worth a word
MIN_COST_SHARE = 0.5  # of a call, from which on there is a warning
MIN_LISTED_SHARE = 0.05  # of a call, from which on a cost is listed
MAX_SPREAD = 3  # times the quickest call: what takes longer was interrupted
MIN_REPEATS = 8  # traces, runs or looks at all guards among the observed calls: fewer are a beginning, or chance

NUMPY = "compute this outside of the step, or with ops that have kernels (docs/compile.md lists those that have none)"
EAGER = "pad the arguments to a few sizes"
TRACED = "keep what changes in a tensor, or pass it as an argument"
GUARDED = "keep it in a tensor, or read it outside of the step"
RENEWED = "keep the object and change what it holds, by copy_() for a tensor"
COPIED = "make it contiguous() once, outside of the step"
SLOWER = "leave it as it is, without compile"


class Advice(NamedTuple):
    """A cost that calls could do without: what it is, the line, what to write instead; seconds and share of a call."""

    what: str
    site: Site | None
    instead: str
    seconds: float
    share: float

    def __str__(self) -> str:
        where = "" if self.site is None else f" at {self.site}"
        return f"{self.what}{where} takes {1e6 * self.seconds:.0f} µs of a call, {self.share:.0%}: {self.instead}"


class StepAdvice(tuple[Advice, ...]):
    """The advice on a step, the most costly first; prints as lines."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "Nothing was seen that this step could do without."

    __repr__ = __str__


class CallCosts:
    """The costs of the observed calls of one compiled function, in all and by cause."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.seconds = 0.0
        self._causes: dict[tuple[str, Site | None, str], tuple[float, int]] = {}
        self._best: dict[tuple[object, bool], float] = {}  # of a signature's calls, eager or compiled, the quickest
        self._compiled_calls: Counter[object] = Counter()  # by signature

    def add(self, what: str, site: Site | None, instead: str, seconds: float) -> None:
        """Add to the cost of a cause."""
        if instead in (RENEWED, EAGER) and self.calls < EARLY_CALLS:
            return
        before, count = self._causes.get((what, site, instead), (0.0, 0))
        self._causes[what, site, instead] = before + seconds, count + 1

    def add_change(self, verb: str, changes: Sequence[GuardFailure], instead: str, seconds: float) -> None:
        """Add the cost of a change that made it necessary to trace again, or to look at all guards."""
        if changes:
            self.add(f"{verb} because {changes[0].what} changes", changes[0].site, instead, seconds)

    def run_eagerly(self, key: object, call: Callable[[], Operand], sized: bool) -> Operand:
        """Call a step that is not compiled for these arguments: for their sizes, or as it was traced too often."""
        start = perf_counter()
        result = call()
        seconds = perf_counter() - start
        self._note(key, True, seconds)
        if sized:
            self.add("running eagerly, for sizes that are not compiled,", None, EAGER, seconds)
        self.finish_call(seconds)
        return result

    def finish_call(self, seconds: float, key: object = None) -> None:
        """Count a call that took so long; warn after the last that is observed. `key`: of a compiled call."""
        if key is not None:
            self._compiled_calls[key] += 1
            self._note(key, False, seconds)
            seconds = min(seconds, MAX_SPREAD * self._best[key, False])
        self.calls += 1
        self.seconds += seconds
        if self.calls == OBSERVED_CALLS:
            found = [each for each in self.advice() if each.instead != EAGER]  # until a compilation is paid
            seconds, share = sum(each.seconds for each in found), sum(each.share for each in found)
            if seconds > MIN_COST_SECONDS and share > MIN_COST_SHARE:
                warn_user(
                    f"compiled function {self.name!r} spends most of its time on other things than its kernels "
                    f"(advice() lists them): {found[0]}",
                    RuntimeWarning,
                )

    def _note(self, key: object, eager: bool, seconds: float) -> None:
        self._best[key, eager] = min(seconds, self._best.get((key, eager), seconds))

    def advice(self) -> StepAdvice:
        """Return what has cost most in the observed calls."""
        counted = {
            cause: seconds
            for cause, (seconds, count) in self._causes.items()
            if cause[2] not in (TRACED, EAGER, RENEWED) or count >= MIN_REPEATS
        }
        besides = sum(seconds for cause, seconds in counted.items() if cause[2] in (TRACED, RENEWED))
        calls, total = max(1, self.calls), max(self.seconds + besides, 1e-9)
        found = [Advice(*cause, seconds / calls, seconds / total) for cause, seconds in counted.items()]
        for (key, eager), seconds in self._best.items():
            quicker = self._best.get((key, True), seconds)
            if not eager and seconds - quicker > MIN_COST_SECONDS and self._compiled_calls[key] >= MIN_REPEATS:
                what = f"compiling instead of running eagerly, in {1e6 * quicker:.0f} µs,"
                found.append(Advice(what, None, SLOWER, seconds - quicker, 1 - quicker / seconds))
        told = [each for each in found if each.share >= MIN_LISTED_SHARE]
        return StepAdvice(sorted(told, key=lambda each: -each.share))


class ObservedEntry(Protocol):
    """A program, and the function that calls run."""

    program: Program
    run: Function
    observed: ObservedRun | None


class ObservedRun:
    """The function that each call of a program runs, observed: NumPy calls, guards left to Python, copies."""

    def __init__(self, entry: ObservedEntry, costs: CallCosts, key: object) -> None:
        self._entry = ref(entry)  # which holds this one
        self.program, self.costs, self.key = entry.program, costs, key
        self._run: Function | None = None
        self._left = OBSERVED_CALLS + FIRST_CALLS
        self._seconds: dict[str, float] = {}  # of the calls of NumPy, by name, the quickest

    @staticmethod
    def is_wanted(program: Program) -> bool:
        """True for a program that leaves something to Python or NumPy at each call."""
        strided = any(isinstance(v.source.strides, tuple) for v in program.graph.inputs_of_kind(Argument))
        unseen = len(program.guard_checks.facts) < len(program.outcome.guards)
        return bool(program.numpy_calls or program.binding.copies_in or unseen or strided)

    def __call__(self, *arguments: Operand, first_call: bool = False) -> Operand:
        if first_call or self.program.is_timed:
            return self.program.run(*arguments, first_call=first_call)
        if self._run is not self.program.run:
            self._run, names = self.program.run, self.program.names
            for name in self.program.numpy_calls:
                names[name] = partial(_time_call, self._seconds, names[name], name)
        start = perf_counter()
        found = self.program.run(*arguments)
        seconds = perf_counter() - start
        if type(found) is tuple:
            self._left -= 1
            if not self._left:
                self._end(arguments)
            if self._left < OBSERVED_CALLS:
                self.costs.finish_call(seconds, self.key)
        return found

    def _end(self, arguments: tuple[Operand, ...]) -> None:
        """Attribute what was measured, and measure what is the same in each call; observe no more."""
        program = self.program
        for name, value in program.numpy_calls.items():
            program.names[name] = program.names[name].args[1]
            site = None if value.origin is None else value.origin.site
            seconds = OBSERVED_CALLS * self._seconds.get(name, 0.0)
            if value.op.family not in ("collective", "boundary"):  # what the program asks for
                self.costs.add(f"{value.op.name}, as a call of NumPy,", site, NUMPY, seconds)
        for k, guard in enumerate(program.outcome.guards):
            if k not in program.guard_checks.facts:
                seconds = OBSERVED_CALLS * _time(guard.holds)
                self.costs.add(f"comparing {guard.what}", guard.site, GUARDED, seconds)
        for symbol in program.binding.copies_in:
            tensor = symbol.source.locate()
            seconds = OBSERVED_CALLS * _time(tensor.array.copy)
            self.costs.add(f"copying {symbol.source.name or 'a captured tensor'}", None, COPIED, seconds)
        for v in program.graph.inputs_of_kind(Argument):
            array = arguments[v.source.number].array
            if not array.flags.c_contiguous:
                self.costs.add(f"copying argument {v.source.number}", None, COPIED, OBSERVED_CALLS * _time(array.copy))
        if (entry := self._entry()) is not None:
            entry.observed, entry.run = None, program.run


def _time_call(best: dict[str, float], call: Function, name: str, *operands: Operand) -> Operand:
    """Return what a call of NumPy gives, and keep its seconds if it was the quickest of its name."""
    start = perf_counter()
    try:
        return call(*operands)
    finally:
        seconds = perf_counter() - start
        best[name] = min(seconds, best.get(name, seconds))


def _time(function: Callable[[], object]) -> float:
    """Return the seconds of a call, the quickest of three."""
    best = float("inf")
    for _ in range(3):
        start = perf_counter()
        function()
        best = min(best, perf_counter() - start)
    return best
