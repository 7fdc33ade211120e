"""The exchanges of one call of a compiled step: they take place once, even where the call begins again.

A step that asks for values is computed while it is traced, and begins anew where an answer has no program, or where a
program fails. The other ranks know nothing of that: what an exchange has brought is taken from the log then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from time import perf_counter
from typing import cast

import numpy as np

from adjoint.core.graph.source_location import Site
from adjoint.core.runtime.fork_safety import reset_after_fork
from adjoint.core.typing import Array, Operand


class CallLog(list[Operand]):
    """The outcomes of what took place in one call, and what its exchanges have brought."""

    @cached_property
    def exchanges(self) -> list[Exchanged]:
        """Results of the exchanges, in their order."""
        return []


class _ExchangeLog(threading.local):
    """Results of the exchanges of this thread's call, and the number of them that it has come to."""

    def __init__(self) -> None:
        self.results: list[Exchanged] | None = None
        self.position = 0
        self.site: Site | None = None


class _ExchangeLogs:
    """The count of blocks that log exchanges, or tell their lines: while it is 0 nobody need look for them."""

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.count = 0
        self.lock = reset_after_fork(threading.RLock())

    def add(self, change: int) -> None:
        """Count a block that begins (1) or ends (-1)."""
        with self.lock:
            self.count += change


Exchanged = list[Array] | BaseException  # what an exchange has written, or raised
_log = _ExchangeLog()
exchange_logs = _ExchangeLogs()


class ExchangeTimes:
    """The number of times that an exchange was made, and the seconds that they took in all."""

    __slots__ = ("count", "seconds")

    def __init__(self) -> None:
        self.count, self.seconds = 0, 0.0

    def add_since(self, start: float) -> None:
        """Count an exchange that began at `start`, by `time.perf_counter`."""
        self.count += 1
        self.seconds += perf_counter() - start

    def mean(self) -> float | None:
        """Return the seconds of one; None before the first."""
        return self.seconds / self.count if self.count else None


class exchanging_at:
    """Block in which a compiled step makes an exchange that the user's program has at this line."""

    __slots__ = ("before", "site")

    def __init__(self, site: Site) -> None:
        self.site = site

    def __enter__(self) -> None:
        exchange_logs.add(1)
        self.before, _log.site = _log.site, self.site

    def __exit__(self, *error: object) -> None:
        _log.site = self.before
        exchange_logs.add(-1)


def exchange_site() -> Site | None:
    """Return the line of the exchange that a compiled step makes now; None for one that is made eagerly."""
    return _log.site


@contextmanager
def log_exchanges(results: list[Exchanged] | None) -> Iterator[None]:
    """Take the first exchanges of the block from `results`, and add those that take place; None: log nothing."""
    before = _log.results, _log.position
    exchange_logs.add(1)
    _log.results, _log.position = results, 0
    try:
        yield
    finally:
        _log.results, _log.position = before
        exchange_logs.add(-1)


def has_exchanged() -> bool:
    """Return whether the next exchange took place in this call already."""
    return _log.results is not None and _log.position < len(_log.results)


def take_exchanged(outs: Sequence[Array]) -> bool:
    """Write into `outs` what the next exchange has brought; False if it did not take place yet."""
    if not has_exchanged():
        return False
    found = cast("list[Exchanged]", _log.results)[_log.position]
    _log.position += 1
    if isinstance(found, BaseException):
        raise found
    _copy_parts(outs, found)
    return True


def exchange_once(outs: Sequence[Array], exchange: Callable[[], object]) -> None:
    """Carry out an exchange that writes `outs`, unless it took place already: then they get what it has brought."""
    results = _log.results
    if results is None:
        exchange()
        return
    if take_exchanged(outs):
        return
    _log.position += 1
    try:
        with log_exchanges(None):
            exchange()
    except Exception as error:
        results.append(error)
        raise
    results.append([out.copy() for out in outs])


def _copy_parts(outs: Sequence[Array], found: Sequence[Array]) -> None:
    """Copy what was written; eager code may write in several arrays what a program writes in one."""
    if not outs:
        return
    begin, whole = 0, np.concatenate([x.reshape(-1) for x in found])
    for out in outs:
        out[...] = whole[begin : begin + out.size].reshape(out.shape)
        begin += out.size
