"""The calling thread's modes: whether ops are recorded, and which interpreter receives them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from adjoint.core.dtype.dtype import dtype
from adjoint.core.runtime.fork_safety import reset_after_fork
from adjoint.core.runtime.interpreter import Interpreter
from adjoint.core.typing import Function, Operand, Operands, Params

if TYPE_CHECKING:
    from adjoint.core.graph.tensor_like import TensorLike
    from adjoint.core.op.op import Op
    from adjoint.core.tensor.detach_record import DetachRecord

Probe = TypeVar("Probe", bound=Function)
Subject = TypeVar("Subject")
Fact = TypeVar("Fact")


class TransformLevel(Protocol):
    """A transform that sees op calls before they are evaluated, for tensors that carry tangents: forward mode."""

    def levels_with_tangents(self, inputs: Operands) -> tuple[object, ...]: ...
    def call(self, op: Op, inputs: Operands, params: Params) -> Operand: ...
    def write(self, x: Operand, out: Operand, since: int | None) -> None: ...
    def tangent_nodes(self, x: Operand) -> Iterable[Any]: ...
    def printed_tangent(self, x: Operand) -> TensorLike | None: ...
    def forward_mode_off(self) -> ModeScope: ...
    def apply_function_jvp(
        self,
        node: Any,
        args: tuple[object, ...],
        returned: Operands,
        outputs: Operands,
        dirty: Operands,
        levels: tuple[object, ...],
    ) -> None: ...


class Packer(Protocol):
    """A pair of hooks through which saved values go."""

    def pack(self, tensor: Operand) -> Any: ...
    def before_write(self, tensor: Operand) -> None: ...


class OpWatcher(Protocol):
    """An observer of the results of ops: anomaly detection, or a count of operations."""

    def observe_op(self, op: Any, inputs: Operands, out: Operand) -> None: ...


class Mode(threading.local):
    """The calling thread's modes. Ops look at them only while `nondefault.count` is not 0."""

    recording: bool
    inference: bool
    detach_record: DetachRecord | None  # the line that switched recording off; results of ops keep it
    interpreter: Interpreter | None  # receives op calls in place of NumPy: a trace, a vmap level
    forward_levels: TransformLevel | None  # sees ops on tensors that may carry tangents
    saved_tensor_hooks: tuple[Packer, ...]  # through which saved values go, innermost last
    anomaly_detector: OpWatcher | None  # looks at each result
    level_floor: int  # nodes with a lower sequence number belong to a level around this one: constants here
    recorded_by_caller: bool  # `recording` is off, but the caller records the call as a whole
    in_transform: bool  # a derivative is being taken, for which tensors of inference mode are constants
    autocast: dtype | None  # of products; None if they take the type of their operands
    is_intercepted: bool  # derived: a call does more than evaluate, wrap and record
    alters_ops: bool  # derived: something besides `recording` and `inference` makes a call differ
    needs_slow_path: bool  # derived: something besides `recording` makes a call differ
    is_counted: bool  # derived: this thread is counted in `nondefault`

    def __init__(self) -> None:
        self.recording = True
        self.inference = self.recorded_by_caller = self.in_transform = False
        self.is_intercepted = self.alters_ops = self.needs_slow_path = self.is_counted = False
        self.detach_record = self.interpreter = self.forward_levels = self.anomaly_detector = self.autocast = None
        self.saved_tensor_hooks = ()
        self.level_floor = -1


class _NonDefault:
    """The count of threads that have left the default modes.

    Reading one slot costs 9 ns, a thread-local attribute 45: while `count` is 0, ops need not look at `mode`.
    """

    __slots__ = ("meta_tensors", "count", "inference_used", "lock")

    def __init__(self) -> None:
        self.count = 0
        self.meta_tensors = 0  # how many tensors have no values: see meta.py; each is counted above, too
        self.inference_used = False  # some thread has been in inference mode: its tensors may be about
        self.lock = reset_after_fork(threading.RLock())


INTERCEPTING_MODES = frozenset({"interpreter", "forward_levels", "saved_tensor_hooks", "anomaly_detector"})
# These are switched in every step.
FREQUENT_MODES = frozenset({"recording", "detach_record", "recorded_by_caller", "in_transform"})
# What a thread that works on behalf of another takes over from it.
INHERITED_BY_THREADS = (
    "recording", "inference", "detach_record", "interpreter", "forward_levels", "saved_tensor_hooks",
    "anomaly_detector", "level_floor", "recorded_by_caller", "in_transform", "autocast",
)  # fmt: skip
mode = Mode()
nondefault = _NonDefault()


class ModeScope:
    """A block that sets modes of this thread, and restores the former ones at its end."""

    __slots__ = ("after", "before")

    def __init__(self, **modes: object) -> None:
        self.after = modes
        self.before: list[dict[str, object]] = []

    def __enter__(self) -> Self:
        enter_modes(self.after, self.before)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _update_modes(mode.__dict__, self.before.pop())


def enter_modes(modes: Mapping[str, object], before: list[dict[str, object]]) -> None:
    """Set modes of this thread, all or none, and append the former ones to `before` for `restore_modes`."""
    held = mode.__dict__  # this thread's
    former = {}
    for name in modes:  # half the time of a comprehension
        former[name] = held[name]
    try:
        before.append(former)
        _update_modes(held, modes)
    except BaseException:  # Ctrl-C, for which the block does not count as entered
        _update_modes(held, former)
        raise


def restore_modes(before: list[dict[str, object]]) -> None:
    """Restore the modes that `enter_modes` appended last to `before`."""
    _update_modes(mode.__dict__, before.pop())


def set_modes(**modes: object) -> None:
    """Set modes of this thread until they are set again, or until the block around ends."""
    _update_modes(mode.__dict__, modes)


def _update_modes(held: dict[str, Any], modes: Mapping[str, object]) -> None:
    held.update(modes)
    if not FREQUENT_MODES.issuperset(modes):
        nondefault.inference_used = nondefault.inference_used or held["inference"]
        held["is_intercepted"] = any(held[name] for name in INTERCEPTING_MODES)
        held["alters_ops"] = held["is_intercepted"] or held["level_floor"] >= 0 or held["autocast"] is not None
        held["needs_slow_path"] = held["inference"] or held["alters_ops"]
    _count_thread(held)


def switch_recording(recording: bool) -> None:
    """Set whether this thread records: `set_modes` for what every backward pass switches, in a third of the time."""
    held = mode.__dict__
    held["recording"] = recording
    _count_thread(held)


def _count_thread(held: dict[str, Any]) -> None:
    """Count the thread of these modes in `nondefault` if it has left the default ones, and only then."""
    if (held["needs_slow_path"] or not held["recording"]) is not held["is_counted"]:
        with nondefault.lock:  # after this call a signal handler may run, and have counted this thread
            odd = held["needs_slow_path"] or not held["recording"]
            if odd is not held["is_counted"]:
                nondefault.count += 1 if odd else -1
                held["is_counted"] = odd  # nothing is called in between: handlers and Ctrl-C come before both or after


def tracing_paused() -> ModeScope:
    """Return a block in which ops are evaluated although a step is being traced: for state made on first use."""
    return ModeScope(interpreter=None)


def recorded_by_caller() -> ModeScope:
    """Return a block whose ops the caller records itself, as one node."""
    return ModeScope(recording=False, recorded_by_caller=mode.recording or mode.recorded_by_caller)


def runtime_input(holder: Any, key: tuple[int | str, ...] | str) -> Operand:
    """Return the number `holder[key]`, or `holder[k1][k2]…` for a tuple of keys.

    In a traced step it is an input, read anew at each call.
    """
    interpreter = mode.interpreter if nondefault.count else None
    if interpreter is not None:
        return interpreter.read_setting(holder, key)
    if type(key) is tuple:
        for k in key:
            holder = holder[k]
        return holder
    return holder[key]


def depends_on(dependencies: Callable[..., Iterable[object]]) -> Callable[[Probe], Probe]:
    """Declare the objects on which the answer of a probe depends, so that a compiled step need not call the probe.

    `dependencies(subject)` yields (dict, key) for an item, (dict, key, None) for one that may be missing, and a list or
    dict for all that it holds. Those of a version's `contents(subject, ignored)` yield dicts, each with the keys that
    do not count.
    """

    def declare(probe: Probe) -> Probe:
        vars(probe)["depends_on"] = dependencies
        return probe

    return declare


def guard_on(
    subject: Subject,
    probe: Callable[[Subject], Fact],
    what: str,
    at_end: bool = False,
    contents: Function | None = None,
) -> Fact:
    """Return `probe(subject)`, on which the caller relies. A compiled step is retraced when it changes.

    The guard compares against the value now, or, with `at_end`, against the value when tracing ends: use that for
    facts that the step itself changes (a version, the identity of state made on first use). For a version, which never
    returns to an earlier value, `contents(subject)` lists the objects that it counts: if these are the same, so is the
    fact. A compiled step need not call a probe whose dependencies `depends_on` declares.
    """
    interpreter = mode.interpreter if nondefault.count else None
    if interpreter is not None:
        interpreter.watch(subject, probe, what, at_end, contents)
    return probe(subject)


def has_interpreter() -> bool:
    """Return whether op calls go to an interpreter: a trace, a level of `vmap`."""
    return bool(nondefault.count) and mode.interpreter is not None


def refuse_while_tracing(called: str) -> None:
    """Raise TraceError, a RuntimeError, in a step that is being traced, which would not repeat the call."""
    if nondefault.count and mode.interpreter is not None:
        mode.interpreter.refuse_call(called)


def defer_to_step_end(function: Callable[[Any], object], argument: object = None) -> bool:
    """Call `function(argument)` at the end of each call of the step that is being traced; False if there is none."""
    interpreter = mode.interpreter if nondefault.count else None
    return interpreter is not None and interpreter.defer(function, argument)


def call_on_values(function: Callable[..., Fact], *tensors: Operand) -> Fact:
    """Return `function(*tensors)`, which looks at values: tensors without a history, of sizes that only values tell.

    A compiled step calls it in each call, between two programs.
    """
    interpreter = mode.interpreter if nondefault.count else None
    found: Fact = function(*tensors) if interpreter is None else interpreter.call_on_values(function, tensors)
    return found


def is_batched(x: Operand) -> bool:
    """Return whether `vmap` has another value of `x` for each example."""
    return bool(nondefault.count) and mode.interpreter is not None and mode.interpreter.is_batched(x)


def holds_for_all(truth: Operand) -> bool:
    """Return the truth that a tensor of one element holds: under `vmap`, whether it does so for all examples."""
    if nondefault.count and mode.interpreter is not None:
        return mode.interpreter.holds_for_all(truth)
    return bool(truth)


def undo_on_failure(prepare: Callable[[Subject], Callable[[], None]], subject: Subject) -> None:
    """Call what `prepare(subject)` returns if the step that is being traced fails."""
    if nondefault.count and mode.interpreter is not None:
        mode.interpreter.undo_on_failure(prepare, subject)


def touch_gradient(tensor: Operand, kind: str) -> None:
    """Tell the tracer, if there is one, that `.grad` of a tensor is about to be read ("read") or replaced ("write")."""
    if nondefault.count and mode.interpreter is not None:
        mode.interpreter.touch_gradient(tensor, kind)


def set_backward_origin(node: object) -> None:
    """Tell the tracer, if there is one, whose gradient is computed next; None when the backward pass is over."""
    if nondefault.count and mode.interpreter is not None:
        mode.interpreter.follow(node)
