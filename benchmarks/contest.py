"""The driver: every variant of a workload in its own process, in rounds, of which one at a time computes."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from .measure import ONE_THREAD, Samples
from .variants import VARIANTS, difference

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 1800.0  # seconds for one answer: torch.compile takes minutes
ALLOWED = 2e-4  # difference of results, relative, in float32
REFERENCES = ("torch eager", "jax.jit, state donated", "adjoint eager")  # the first that is there


class Failed(Exception):
    """A process ended, or was silent, instead of answering."""


@dataclass(frozen=True)
class Outcome:
    """What became of one variant: seconds of a call by the clock and of work, results, bytes of memory at the peak.

    `peak` is beyond what the process had when its library was imported, `process` is all that it had. `apart`: from the
    reference. `absent`: why there is nothing.
    """

    wall: Samples | None = None
    cpu: Samples | None = None
    results: tuple[tuple[float, ...], ...] = ()
    apart: float = 0.0
    peak: int = 0
    process: int = 0
    first: float = 0.0
    absent: str = ""

    @property
    def agrees(self) -> bool:
        """True if it was measured, and computed what the reference computed."""
        return self.wall is not None and self.apart <= ALLOWED


def contest(
    name: str,
    threads: int,
    cores: list[int],
    rounds: int,
    seconds: float,
    tell: Callable[[str], None],
    variants: Mapping[str, Any] = VARIANTS,
) -> dict[str, Outcome]:
    """Every variant's outcome on one workload. A variant whose results differ is reported, and not to be compared."""
    outcomes: dict[str, Outcome] = {}
    with ExitStack() as stack:
        running: dict[str, tuple[Process, dict[str, Any]]] = {}
        for variant in variants:
            tell(f"{name}, {threads} thread(s): {variant} gets ready")
            process = stack.enter_context(started(name, variant, threads, cores))
            try:
                first = process.answer()
                if "absent" in first:
                    outcomes[variant] = Outcome(absent=first["absent"])
                    continue
                running[variant] = process, {**first, **process.answer()}
                process.rest()
            except Failed as error:
                outcomes[variant] = Outcome(absent=str(error))
        taken = _rounds({variant: process for variant, (process, _) in running.items()}, rounds, seconds, tell)
        reference = next((running[v][1]["results"] for v in REFERENCES if v in running), None)
        for variant, (_, ready) in running.items():
            outcomes[variant] = Outcome(
                wall=Samples(tuple(each["wall"] for each in taken[variant])),
                cpu=Samples(tuple(each["cpu"] for each in taken[variant])),
                results=tuple(map(tuple, ready["results"])),
                apart=difference(ready["results"], reference) if reference is not None else 0.0,
                peak=ready["peak"],
                process=ready["process"],
                first=ready["first"],
            )
    return {variant: outcomes[variant] for variant in variants}


def _rounds(
    running: dict[str, Process], rounds: int, seconds: float, tell: Callable[[str], None]
) -> dict[str, list[dict[str, float]]]:
    """The order shifts from round to round, so that nobody always follows the same one."""
    names = list(running)
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for k in range(rounds):
        tell(f"round {k + 1} of {rounds}")
        shift = k % max(len(names), 1)
        for name in names[shift:] + names[:shift]:
            running[name].wake()
            taken[name].append(running[name].ask(seconds))
            running[name].rest()
    return taken


class Process:
    """A contestant at the other end of two pipes, stopped while others have their turn: its threads too."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self.popen = popen

    def ask(self, seconds: float) -> dict[str, Any]:
        """The answer to one round."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(f"{seconds}\n")
        self.popen.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next line that it says."""
        assert self.popen.stdout is not None
        ready, _, _ = select.select([self.popen.stdout], [], [], PATIENCE)
        line = self.popen.stdout.readline() if ready else ""
        if not line:
            raise Failed("no answer" if not ready else "failed: see above")
        found: dict[str, Any] = json.loads(line)
        return found

    def rest(self) -> None:
        """Stop, spinning threads and all."""
        self.popen.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        """Go on."""
        self.popen.send_signal(signal.SIGCONT)


@contextmanager
def started(
    name: str, variant: str, threads: int, cores: list[int], extra: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """A contestant, which ends with the block."""
    program = "from benchmarks.contestant import main; main()"
    popen = subprocess.Popen(
        [sys.executable, "-c", program, name, variant, str(threads), ",".join(map(str, cores))],
        cwd=ROOT,
        env={**os.environ, **threaded(threads), **(extra or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    try:
        yield Process(popen)
    finally:
        popen.kill()
        popen.communicate()


def threaded(count: int) -> dict[str, str]:
    """The environment that holds every library to so many threads; torch.compile compiles in its own process."""
    counted = {key: str(count) for key in (*ONE_THREAD, "ADJOINT_NUM_THREADS") if key.endswith("_THREADS")}
    counted["XLA_FLAGS"] = ONE_THREAD["XLA_FLAGS"] if count == 1 else ""
    return {**counted, "JAX_PLATFORMS": "cpu", "TORCHINDUCTOR_COMPILE_THREADS": "1"}


def first_step(name: str, variant: str, cores: list[int], folder: str) -> tuple[float, float] | None:
    """Seconds from the start of a process to the result of its first call, by the clock and of work; kernel caches are
    in `folder`. None if there is no such way.
    """
    caches = {"ADJOINT_CACHE_DIR": folder, "ADJOINT_NO_CACHE": "0", "TORCHINDUCTOR_CACHE_DIR": folder}
    caches["JAX_COMPILATION_CACHE_DIR"] = folder
    caches["PYTHONDONTWRITEBYTECODE"] = ""  # as installed: the first process compiles what has changed
    caches["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    begun = time.perf_counter()
    with started(name, variant, 1, cores, caches) as process:
        try:
            answer = process.answer()
        except Failed:
            return None
        return None if "absent" in answer else (time.perf_counter() - begun, answer["work"])


def fastest(outcomes: Mapping[str, Outcome], clock: str) -> tuple[str, float] | None:
    """The peer of least median by that clock, `wall` or `cpu`, among those that agree."""
    times = {
        variant: median(getattr(outcome, clock).seconds)
        for variant, outcome in outcomes.items()
        if outcome.agrees and not variant.startswith("adjoint")
    }
    return min(times.items(), key=lambda pair: pair[1]) if times else None
