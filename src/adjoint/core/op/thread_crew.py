"""Threads of Python that share the parts of one eager call: nobody waits for one that has taken none.

The thread that calls takes parts itself, and the others take what is left. At the end it withdraws the work of those
that have not begun, and waits, asleep, for those that have a part in hand. If it waits much longer than a part takes,
another program has the processor of such a thread: calls then run on one thread for some time, in proportion to the
wait, and twice as long as last time where one such wait soon follows another. `compiler/runtime/thread_pool.py` does
the same for compiled kernels.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from adjoint.core.runtime.threads import IN_BROWSER, MAX_THREADS

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

MIN_STALL_SECONDS = 2e-4  # a wait that is longer than a part takes by this is a stall
STALL_SHARE = 8  # stalls under an eighth of a call are borne; after others calls run alone, 8 times as long
MAX_STALL_SHARE = 64  # and at most 64 times as long, where one stall follows another


class ThreadCrew:
    """The threads, which are started when they are first needed.

    `alone_until`: the time, by `time.perf_counter`, until which calls run on one thread; `alone_seconds`: how long.
    """

    __slots__ = ("_callers", "_executor", "alone_seconds", "alone_until")

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._callers: set[int] = set()
        self.alone_until = self.alone_seconds = 0.0

    def run(self, work: Callable[[int], object], parts: int, threads: int) -> None:
        """Call `work(0)` to `work(parts - 1)`, each once, in any order, on at most `threads` threads."""
        begin, caller = time.perf_counter(), threading.get_ident()
        helpers = 0 if IN_BROWSER else min(threads, parts) - 1
        # a caller that is there already was interrupted by a signal's handler, maybe while it had the executor's locks
        if helpers < 1 or begin < self.alone_until or caller in self._callers:
            for part in range(parts):
                work(part)
            return
        left = deque(range(parts))

        def take() -> int:
            count = 0
            while True:
                try:
                    part = left.popleft()
                except IndexError:
                    return count
                try:
                    work(part)
                except BaseException:
                    left.clear()
                    raise
                count += 1

        asked: list[Future[int]] = []
        mine = 0
        try:
            self._callers.add(caller)
            executor = self._start()
            asked.extend(executor.submit(take) for _ in range(helpers))
            mine = take()
        finally:
            self._callers.discard(caller)
            taken = time.perf_counter()
            errors = [each.exception() for each in asked if not each.cancel()]
            self._note_stall(begin, taken, max(mine, 1))
        for error in errors:
            if error is not None:
                raise error

    def forget_threads(self) -> None:
        """Start anew in a forked process, which has no threads but one."""
        self._executor, self._callers, self.alone_until, self.alone_seconds = None, set(), 0.0, 0.0

    def _note_stall(self, begin: float, taken: float, mine: int) -> None:
        end = time.perf_counter()
        stall = end - taken - (taken - begin) / mine
        if stall > max(MIN_STALL_SECONDS, (end - begin) / STALL_SHARE):
            doubled = 2 * self.alone_seconds if begin - self.alone_until < self.alone_seconds else 0.0
            self.alone_seconds = max(STALL_SHARE * stall, min(doubled, MAX_STALL_SHARE * stall))
            self.alone_until = end + self.alone_seconds

    def _start(self) -> ThreadPoolExecutor:
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor  # few programs need it

            self._executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="adjoint")
        return self._executor


thread_crew = ThreadCrew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=thread_crew.forget_threads)
