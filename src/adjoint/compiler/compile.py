"""`compile`: a function that is traced on its first call for each signature, and runs as native code from then on."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

from adjoint.compiler.ir.graph import HandlerError, OverlapError, StaticSizeError, TraceError
from adjoint.compiler.known_entries import Alternation, hand_over, run_direct, run_path
from adjoint.compiler.log import LOGGED, log
from adjoint.compiler.program.eager_step import EagerStep, StepWrapper, has_llvmlite
from adjoint.compiler.program.outlined_calls import OutlinedCalls
from adjoint.compiler.program.tree_codegen import write_unpacker
from adjoint.compiler.report.advice import TRACED, CallCosts
from adjoint.compiler.report.example_arguments import ExampleArguments
from adjoint.compiler.report.profiled_call import call_step_timed
from adjoint.compiler.report.step_reports import StepReports
from adjoint.compiler.runtime.call_turn import CallTurn, Unfinished, tracing_alone
from adjoint.compiler.trace.events.loop_watch import OutlineFoundError
from adjoint.compiler.trace.recompilation import Recompilation, describe_compilation, find_changes
from adjoint.compiler.trace.signature import (
    MAX_BRANCHES,
    MAX_TRACES_THAT_SERVE_NO_OTHER_CALL,
    Signature,
    SignatureKey,
    VaryingIntegers,
)
from adjoint.compiler.trace.sizes.batch_sizes import BatchSizes, ProgramBudget, Unlimited
from adjoint.compiler.trace.sizes.dynamic_sizes import DynamicSizes
from adjoint.core.graph.source_location import warn_user
from adjoint.core.op.op_timer import find_op_timer
from adjoint.core.runtime import pytree
from adjoint.core.runtime.exchange_log import CallLog, log_exchanges
from adjoint.core.runtime.fork_safety import CachedProperty
from adjoint.core.runtime.lazy_import import importing
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.runtime.package_name import display_name
from adjoint.core.typing import Function, Operand, Operands

if TYPE_CHECKING:
    from adjoint.compiler.build import CompiledEntry
    from adjoint.compiler.cuts.staged_entry import StagedEntry

TORCH_COMPILE_OPTIONS = {"mode", "fullgraph", "backend", "options", "disable"}  # torch.compile's
TORCH_COMPILE_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
MAX_PROGRAMS_PER_SIGNATURE = 8  # kept for one signature, when the Python state that steps rely on keeps changing
BOOKED_TURNS = 64  # of a program, for which it is booked what they saved
MAX_SIGNATURES = 64  # kept in all
# Answers of a call in turn: run eagerly; do so, and tell how long it takes; come back when no other call runs.
NO_PROGRAM, NOT_WORTH_IT, TRACE_NEEDED = object(), object(), object()


def compile(
    function: Function | None = None,
    *,
    fallback: bool | None = None,
    verbose: bool = False,
    dynamic: bool | None = None,
    **options: object,
) -> Function:
    """`function` compiled on its first call for each signature of its arguments; usable as a decorator.

    A step that cannot be compiled raises TraceError, which names the line; with `fallback` it runs eagerly instead,
    after one warning. So it does where adjoint stands in for PyTorch (`adjoint.run`), unless `fullgraph` is asked for.
    `verbose` writes a line for each program to standard error: "step: compiled in 0.4 s: 11 kernels".
    Without llvmlite `compile` says so once and returns an `EagerStep`. torch.compile's options are accepted; but for
    `disable`, and `fullgraph` there, they choose among compilers, and change nothing. Others raise TypeError.
    """
    unknown = sorted(set(options) - TORCH_COMPILE_OPTIONS)
    if unknown:
        raise TypeError(f"compile() got an unexpected keyword argument {unknown[0]!r}")
    if options.get("mode") not in (None, *TORCH_COMPILE_MODES):
        raise RuntimeError(f"Unrecognized mode={options['mode']}, should be one of: {', '.join(TORCH_COMPILE_MODES)}")
    if function is None:
        return lambda decorated: compile(decorated, fallback=fallback, verbose=verbose, dynamic=dynamic, **options)
    if options.get("disable"):
        return function
    if fallback is None:
        fallback = display_name.package == "torch" and not options.get("fullgraph")
    if not has_llvmlite():
        return EagerStep(function, fallback, verbose)
    return CompiledFunction(function, fallback, verbose, dynamic)


class CompiledFunction(StepReports, StepWrapper):
    """A step with a program for each signature it was called with.

    `graph`, `kernels`, `explain()`, `memory()`, `source()` and `page()` show the program that ran last; `compilations`
    counts the traces, and `recompilations` tells why there was more than one. Other attributes are those of the
    function itself: a compiled module has its parameters, takes its attributes, and passes for a module.
    """

    OWN_ATTRIBUTES = StepWrapper.OWN_ATTRIBUTES.union(
        ("budget", "integers", "_costs", "_loops", "_programs", "_sizes", "_dynamic", "_latest", "_parameters", "_turn")
    )

    def __init__(
        self, function: Function, fallback: bool = False, verbose: bool = False, dynamic: bool | None = None
    ) -> None:
        super().__init__(function, fallback, verbose)
        self._programs: dict[object, Signature] = {}
        self.integers = VaryingIntegers()  # among the arguments
        self.budget: ProgramBudget = Unlimited()  # of a training region, say
        self._sizes = BatchSizes()
        self._dynamic = DynamicSizes(dynamic)
        self._costs = CallCosts(self.name)
        compile_region = functools.partial(CompiledFunction, verbose=verbose, dynamic=dynamic)
        self._loops = OutlinedCalls(function, self.name, compile_region, are_watched=dynamic is not False)
        self._latest: CompiledEntry | StagedEntry | Alternation | None = None
        self._turn = CallTurn()

    def __call__(self, *args: object, **kwargs: object) -> Any:
        latest = self._latest
        leaves: object = None
        if latest is not None:
            if latest.direct and not kwargs and len(args) == latest.count:
                leaves = latest.run(*args)
            elif latest.unpack is not None and (given := latest.unpack(args, kwargs)) is not None:
                leaves = latest.run(*given)
            if type(leaves) is tuple:
                return latest.rebuild(leaves)
        return self._dispatch(args, kwargs, leaves if isinstance(leaves, Unfinished) else None)

    def __reduce__(self) -> Any:
        return CompiledFunction, (self.function, self.fallback, self._verbose, self._dynamic.dynamic)

    def __repr__(self) -> str:
        return f"<compiled {self.function!r}>"

    def _latest_entry(self) -> CompiledEntry | StagedEntry | None:
        """The entry that ran last."""
        latest = self._latest
        return latest.last if isinstance(latest, Alternation) else latest

    def _dispatch(self, args: Operands, kwargs: dict[str, Operand], unfinished: Unfinished | None) -> Any:
        """Find or make the program for these arguments. `unfinished`: of a way on which the call has begun."""
        events = CallLog(unfinished.log if unfinished is not None else ())
        if unfinished is not None and unfinished.error is not None:
            return self._run_eagerly(args, kwargs, events)
        if nondefault.count and mode.is_intercepted:
            timer = find_op_timer()
            if timer is None:  # a part of another compiled step, of vmap, of forward mode
                return self.function(*args, **kwargs)
            programs = (p for known in self._programs.values() for entry in known.entries for p in entry.programs)
            return call_step_timed(self, programs, timer, args, kwargs)
        latest = self._latest
        follower: CompiledEntry | None = None
        if isinstance(latest, Alternation):
            self._latest = follower = latest.last
        elif latest is not None and latest.follower is not None:
            follower = latest.follower()
        if follower is not None and not events and not kwargs and len(args) == follower.count:  # turns have an order
            found = follower.run(*args)
            if type(found) is tuple:
                if latest is not None and not isinstance(latest, Alternation):
                    self._latest = hand_over(latest, follower)
                return follower.rebuild(found)
        since = self._sizes.clock() if self._sizes.can_compare else 0.0
        leaves, structure = pytree.flatten((args, kwargs))
        key, given = self.integers.make_key(leaves, structure)
        result = TRACE_NEEDED
        if int in key[1]:  # a program that was made for this very integer, before any other came, is there still
            fixed = self.integers.make_fixed_key(leaves, structure)
            signature = self._programs.get(fixed[0])
            if signature is not None and not signature.is_asking:
                result = self._run_in_turn(*fixed, args, kwargs, events, since, may_trace=False)
        if result is TRACE_NEEDED or result is NO_PROGRAM:
            result = self._run_in_turn(key, given, args, kwargs, events, since, may_trace=False)
        if result is TRACE_NEEDED and self._loops.serves(key):
            result = NO_PROGRAM
        if result is TRACE_NEEDED:
            with tracing_alone() as may_trace:
                result = NO_PROGRAM
                if may_trace:
                    result = self._run_in_turn(key, given, args, kwargs, events, since, may_trace=True)
        if result is NO_PROGRAM:
            if self._loops.serves(key) and not any(outcome.is_replayed for outcome in events):
                self._latest = None  # no program of this function
                return self._loops.run(args, kwargs)
            self.budget.note_eager_call()
            if events or (signature := self._programs.get(key)) is None or not signature.eager:
                return self._run_eagerly(args, kwargs, events)
            return self._costs.run_eagerly(key, lambda: self.function(*args, **kwargs), sized=False)
        if result is NOT_WORTH_IT:
            self.budget.note_eager_call()
            since = self._sizes.clock()
            if events:
                result = self._run_eagerly(args, kwargs, events)
            else:
                result = self._costs.run_eagerly(key, lambda: self.function(*args, **kwargs), sized=True)
            self._sizes.note_eager_call(key, since)
        return result

    def _run_known(
        self, signature: Signature, key: SignatureKey, given: list[Operand], log: CallLog
    ) -> tuple[CompiledEntry | StagedEntry | None, Operand, bool]:
        """The program that fits and its leaves; no leaves if none does, or else why the call is to run eagerly.

        What takes place in this call, and is not to take place again, is added to `log`. The third result tells
        whether some program is for the present state of Python.
        """
        if signature.is_asking:
            if not log and signature.rests():
                return None, signature, True
            path, found = run_path(signature, self._latest_entry(), given, log)
            self._latest = path or self._latest
            return path, found, found is not None
        entry, found, is_state_known = run_direct(signature, key, given, self._costs)
        if entry is not None:
            self._note_turn(signature, entry)
        return entry, found, is_state_known

    def _run_eagerly(self, args: tuple[object, ...], kwargs: dict[str, object], events: CallLog) -> Any:
        """The result of the function itself; what took place in this call already does not take place again."""
        if not (events or events.exchanges):
            return self.function(*args, **kwargs)
        from adjoint.compiler.cuts.replay import finish_eagerly

        return finish_eagerly(self.function, args, kwargs, events)

    def _run_in_turn(
        self,
        key: SignatureKey,
        given: list[Operand],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        events: CallLog,
        since: float,
        may_trace: bool,
    ) -> object:
        """The result of a call when it is its turn; NO_PROGRAM or NOT_WORTH_IT where it is to run eagerly."""
        turn = self._turn
        with turn.lock:
            if turn.is_taken():
                return NO_PROGRAM  # a signal handler has interrupted a call of this thread
            turn.is_dispatching = True
            try:
                signature = self._programs.pop(key, None)
                untried = signature is None or not (signature.entries or signature.eager)
                if untried and (shared := self._dynamic.find_signature(key)) is not None:
                    signature = shared
                else:
                    signature = self._programs[key] = signature or Signature()  # the last to be used is the last to go
                entry, found, is_state_known = self._run_known(signature, key, given, events)
                if type(found) is tuple:
                    signature.misses = 0
                    if since:
                        self._sizes.note_compiled_call(key, since)
                    assert entry is not None  # which another thread's call may have replaced as the latest
                    return entry.rebuild(found)
                if found is not None or signature.eager:
                    return NO_PROGRAM
                if not may_trace:
                    return TRACE_NEEDED
                if self._dynamic.is_full(signature):  # this size gets a program of its own
                    signature = self._programs[key] = Signature()
                if not (signature.may_trace(events) and self.budget.may_add_program()):
                    return NOT_WORTH_IT
                if self._is_worth_compiling(signature, key, given, (args, kwargs), is_state_known and not events):
                    return self._trace_and_run(signature, key, args, kwargs, given, events)
                return NOT_WORTH_IT
            finally:
                turn.is_dispatching = False

    def _note_turn(self, signature: Signature, entry: CompiledEntry) -> None:
        """Note that this program has run after the latest one, and is the last of its signature to go."""
        entry.turns += 1
        latest = self._latest_entry()
        if latest is not None and entry is not latest:
            booked = self._sizes.can_compare and entry.turns < BOOKED_TURNS
            latest.follower = ref(entry) if entry.direct and not booked else None
        if signature.entries[-1] is not entry:
            signature.entries.remove(entry)
            signature.entries.append(entry)
        self._latest = entry

    def _is_worth_compiling(
        self, signature: Signature, key: SignatureKey, given: list[Operand], arguments: Operands, is_state_known: bool
    ) -> bool:
        """False for one more size, or one more integer where the programs are for others, unless it is paid.

        `arguments`: by position, and by name. Where an integer is but the reason of a decision, `if i % 4 == 0`, there
        are few ways, and the first of them are compiled at once.
        """
        if signature.entries:
            is_other_state = int not in key[1] or not is_state_known
            if is_other_state or signature.only_decides_otherwise(given) or self._sizes.can_pay(key):
                return True
            # where integers are sizes, one program serves all but the smallest
            return all(p.outcome.arithmetic.is_small_size for entry in signature.entries for p in entry.programs)
        worth, refused = self._sizes.count(key)
        if refused:
            self._warn(refused)
        return worth or self._dynamic.begins_symbols(key, pytree.flatten(arguments)[0])

    def _trace_and_run(
        self,
        signature: Signature,
        key: SignatureKey,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        given: list[Operand],
        events: CallLog,
    ) -> object:
        """The result of the first call of a new program."""
        reason = find_changes(self.recompilations, signature, key, self._parameters, given, events)
        start, is_branch = self._sizes.clock(), bool(events)
        are_distinct = key[2] == tuple(range(len(given)))
        try:
            entry, undo = self._trace(signature, key, args, kwargs, events)
        except OverlapError:  # the next call may bring others
            return NO_PROGRAM
        except OutlineFoundError as error:
            if self._loops.take(key, error.outline):
                return NO_PROGRAM
            return self._trace_and_run(signature, key, args, kwargs, given, events)
        except HandlerError as raised:
            raise raised.error from None
        except TraceError as error:
            if not (self.fallback or error.runs_eagerly):
                error.log = events
                raise
            signature.eager = True
            self._warn(f"runs eagerly: {error}")
            return NO_PROGRAM
        except Exception as error:  # noqa: BLE001  whatever the step raises
            result = self._run_eagerly(args, kwargs, events)  # leaves what it does before it raises
            self._warn(f"could not be compiled and {signature.note_failure()}: {type(error).__name__}: {error}")
            return result
        signature.failures = 0
        plain = not kwargs and len(given) == len(args)
        if entry.direct and are_distinct and not plain:
            entry.unpack = write_unpacker(args, kwargs, key[1])
        entry.direct, entry.example = entry.direct and are_distinct and plain, ExampleArguments(args, kwargs)
        entry.share_turn(self._turn)
        try:
            leaves = entry.attempt(given, events, first_call=True)
        except BaseException:
            undo()
            raise
        if type(leaves) is not tuple:  # an argument shares memory that the step writes, or a program failed
            undo()
            return NO_PROGRAM
        self.recompilations.append(Recompilation(self.name, key, reason))
        self._sizes.note_compilation(key, start)
        self._dynamic.note_program(key, signature, entry.programs)
        self._keep(signature, entry, is_branch)
        seconds = self._sizes.clock() - start
        if signature.is_asking:
            self._latest = entry
        else:
            self._note_turn(signature, cast("CompiledEntry", entry))
            cast("CompiledEntry", entry).observe(self._costs, key)
        if len(signature.entries) > 1 and not is_branch:
            self._costs.add_change("tracing again", reason, TRACED, seconds)
        if self._verbose or "compile" in LOGGED:
            log("compile", describe_compilation(self.recompilations[-1], entry.programs, seconds))
        return entry.rebuild(leaves)

    def _trace(
        self, signature: Signature, key: SignatureKey, args: Operands, kwargs: dict[str, Operand], events: CallLog
    ) -> tuple[CompiledEntry | StagedEntry, Callable[[], None]]:
        """A new program, and what takes back the state that its trace made."""
        with importing():
            from adjoint.compiler.step_compiler import trace_step
            from adjoint.compiler.trace.guards import find_dynamic_sources

        for entry in signature.entries:
            signature.dynamic_sources.update(
                find_dynamic_sources([g for p in entry.programs for g in p.outcome.guards if not g.holds()])
            )
        varying = [i for i, kind in enumerate(key[1]) if kind in (int, float)]

        def trace(
            specialize: bool, dims: Mapping[int, Sequence[int]] = MappingProxyType({})
        ) -> tuple[CompiledEntry | StagedEntry, Callable[[], None]]:
            with log_exchanges(events.exchanges):
                options = specialize, events, dims, self._loops.are_watched
                return trace_step(self.function, self.name, args, kwargs, signature, varying, *options)

        leaves = pytree.flatten((args, kwargs))[0]
        while dims := self._dynamic.choose_dims(key, leaves):
            try:
                return trace(False, dims)
            except StaticSizeError as error:  # of these dimensions the step needs one number
                if refused := self._dynamic.find_refused_marks(leaves, error.places):
                    raise TraceError(
                        f"dimension {refused[0][1]} of an argument of {self.name!r} was marked as dynamic, but the "
                        "step needs one number of it: mark_dynamic asks for a program that serves every size, "
                        "maybe_mark_dynamic for one if that is possible"
                    ) from error
                self._dynamic.note_static(key, error.places)
        try:
            return trace(specialize=False)
        except Exception as error:
            if isinstance(error, OutlineFoundError) or not (signature.dynamic_sources or varying or events):
                raise
            signature.dynamic_sources.clear()  # a number itself was wanted: then each is a program of its own
            return trace(specialize=True)

    @CachedProperty
    def _parameters(self) -> list[str]:
        """The names of the positional parameters, for messages."""
        try:
            return list(inspect.signature(getattr(self.function, "forward", self.function)).parameters)
        except (TypeError, ValueError):
            return []

    def _keep(self, signature: Signature, entry: CompiledEntry | StagedEntry, is_branch: bool) -> None:
        """Keep a program; `is_branch`: it is for another answer than those before, in the same state of Python."""
        signature.traces += not is_branch
        if len(signature.entries) == (MAX_BRANCHES if signature.is_asking else MAX_PROGRAMS_PER_SIGNATURE):
            signature.entries.pop(0)
        signature.entries.append(entry)
        signature.is_asking = any(kept.is_asking for kept in signature.entries)
        limit = 2 * MAX_PROGRAMS_PER_SIGNATURE if signature.has_served() else MAX_TRACES_THAT_SERVE_NO_OTHER_CALL
        if signature.traces >= limit and not (signature.eager or is_branch):
            signature.eager = True
            self._warn(
                f"was traced {signature.traces} times for one signature of arguments; where none of its last "
                f"{MAX_PROGRAMS_PER_SIGNATURE} programs fits, it runs eagerly from now on. "
                f"What keeps changing: {self.recompilations[-1]}"
            )
        if len(self._programs) > MAX_SIGNATURES:
            del self._programs[next(iter(self._programs))]

    def _warn(self, what: str) -> None:
        warn_user(f"compiled function {self.name!r} {what}", RuntimeWarning)
