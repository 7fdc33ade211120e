"""The progress of a compilation that takes more than a second, on standard error: where the time goes.

It is shown on a terminal, in one line that is written anew, or, where `ADJOINT_LOG=compile` asks for it, line by line.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from shutil import get_terminal_size
from typing import TextIO

from adjoint.compiler.log import LOGGED

MIN_SECONDS_TO_SHOW = 1.0
MIN_SECONDS_BETWEEN = 0.25  # of two lines
ERASE_LINE = "\r\x1b[K"


class Progress(threading.local):
    """The compilation that this thread is at: what was done, and the stage that runs.

    `clock` and `stream`: the time, and where to write, standard error of the moment by default.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter, stream: TextIO | None = None) -> None:
        self._clock, self._given = clock, stream
        self._name = ""  # of the compiled function; empty outside of a compilation
        self._done: list[str] = []
        self._start = self._stage_start = self._next = 0.0
        self._is_shown = False

    @contextmanager
    def compilation(self, name: str) -> Iterator[None]:
        """A block in which a function is compiled. One within another is part of that."""
        stream = self._given or sys.stderr
        rewrites = stream is not None and stream.isatty()
        if self._name or not (rewrites or "compile" in LOGGED):
            yield
            return
        self._name, self._done, self._is_shown = name, [], False
        self._stream, self._rewrites = stream, rewrites
        self._start = self._stage_start = self._clock()
        self._next = self._start + MIN_SECONDS_TO_SHOW
        ending = "not compiled"
        try:
            yield
            ending = "until its first call"
        finally:
            if self._is_shown:
                self._write("; ".join([*self._done, f"{self._clock() - self._start:.1f} s {ending}"]), "\n")
            self._name = ""

    def note(self, stage: str) -> None:
        """Tell what is done at this moment: `planning: fuse`."""
        if self._name and self._clock() >= self._next:
            self._is_shown = True
            self._write("; ".join([*self._done, stage]), "" if self._rewrites else "\n")
            self._next = self._clock() + MIN_SECONDS_BETWEEN if self._rewrites else self._next + MIN_SECONDS_TO_SHOW

    def finish(self, stage: str) -> None:
        """Tell that a stage is over: `25,710 equations traced`."""
        if self._name:
            now = self._clock()
            self._done.append(f"{stage} in {now - self._stage_start:.1f} s")
            self._stage_start = now
            self.note("")

    def _write(self, text: str, end: str) -> None:
        line = f"[adjoint compile] {self._name}: {text.rstrip('; ')}"
        if self._rewrites:  # of one row, as only the last one is erased
            line = ERASE_LINE + (line if end else line[: get_terminal_size().columns - 1])
        with suppress(OSError, ValueError):  # nobody reads, or it was closed
            self._stream.write(line + end)
            self._stream.flush()


progress = Progress()
