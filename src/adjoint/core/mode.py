"""What differs from thread to thread: whether ops are recorded, and who traces them."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Protocol, Self


class Tracer(Protocol):
    """Receives op calls in place of NumPy while a step is compiled."""

    def emit(self, op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any: ...
    def constant(self, array: Any) -> Any: ...
    def adopt(self, tensor: Any) -> Any: ...
    def read_setting(self, holder: Any, key: Any) -> Any: ...
    def watch(self, subject: Any, probe: Any, what: str, settled: bool, contents: Any) -> None: ...
    def touch_gradient(self, tensor: Any, kind: str) -> None: ...
    def follow(self, node: Any) -> None: ...
    def enter_module(self, name: str) -> None: ...
    def leave_module(self) -> None: ...
    def refuse_write(self, called: str) -> None: ...


class Level(Protocol):
    """What takes op calls before they are evaluated, where tensors carry more than values: forward mode."""

    def call(self, op: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any: ...


class Mode(threading.local):
    """The calling thread's modes.

    `duals` sees the ops on tensors that may carry tangents; `packers` are the hooks through which saved values go,
    innermost last; `watcher` looks at each result (anomaly detection); `floor`: nodes older than this order are
    constants here, since they belong to a level around this one. `special` is derived: an op call has more to do than
    to evaluate, wrap and record.
    """

    recording: bool = True
    inference: bool = False
    tracer: Tracer | None = None
    duals: Level | None = None
    packers: tuple[Any, ...] = ()
    watcher: Any = None
    floor: int = -1
    special: bool = False


class _Unusual:
    """How many contexts in the process, over all threads, have left the default modes.

    Reading one slot costs 9 ns, a thread-local attribute 45: while `count` is 0, ops need not look at `mode`.
    """

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.count = 0
        self.lock = threading.Lock()


SPECIAL = frozenset({"tracer", "duals", "packers", "watcher"})
# What a thread that works on behalf of another takes over from it.
CARRIED = ("recording", "inference", "tracer", "duals", "packers", "watcher", "floor")
mode = Mode()
unusual = _Unusual()


class Scope:
    """Sets modes of this thread for a `with` block, and puts the former ones back however the block ends."""

    __slots__ = ("after", "before")

    def __init__(self, **modes: Any) -> None:
        self.after = modes
        self.before: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        self.before.append({name: getattr(mode, name) for name in self.after})
        with unusual.lock:
            unusual.count += 1
        self._set(self.after)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._set(self.before.pop())
        with unusual.lock:
            unusual.count -= 1

    @staticmethod
    def _set(modes: dict[str, Any]) -> None:
        for name, value in modes.items():
            setattr(mode, name, value)
        if not SPECIAL.isdisjoint(modes):
            mode.special = any(getattr(mode, name) for name in SPECIAL)


def concrete() -> Scope:
    """A block in which ops compute at once although a step is being traced: for state that is made on first use."""
    return Scope(tracer=None)


def setting(holder: Any, key: Any) -> Any:
    """`holder[key]`, a number, or `holder[k1][k2]…` for a tuple of keys.

    While tracing it is an input of the compiled step, read anew at each call.
    """
    tracer = mode.tracer if unusual.count else None
    if tracer is not None:
        return tracer.read_setting(holder, key)
    if type(key) is tuple:
        for k in key:
            holder = holder[k]
        return holder
    return holder[key]


def watch(subject: Any, probe: Any, what: str, settled: bool = False, contents: Any = None) -> Any:
    """`probe(subject)`, on which the caller relies. A compiled step is retraced when it changes.

    What counts is the fact as it is now; or, if `settled`, as it is when the step has been traced, for facts that the
    step itself changes on its way (a version, the identity of state made on first use). Where the probe is a version
    that never comes back, `contents(subject)` lists the objects that it counts: if these are the same again, so is the
    fact.
    """
    tracer = mode.tracer if unusual.count else None
    if tracer is not None:
        tracer.watch(subject, probe, what, settled, contents)
    return probe(subject)


def touch_gradient(tensor: Any, kind: str) -> None:
    """Tell the tracer, if there is one, that `.grad` of a tensor is about to be read ("read") or replaced ("write")."""
    if unusual.count and mode.tracer is not None:
        mode.tracer.touch_gradient(tensor, kind)


def follow(node: Any) -> None:
    """Tell the tracer, if there is one, whose gradient is computed next; None when the backward pass is over."""
    if unusual.count and mode.tracer is not None:
        mode.tracer.follow(node)
