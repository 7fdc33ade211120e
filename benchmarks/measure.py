"""Times candidates side by side: each round takes a sample of every one, in an order that shifts; medians count."""

from __future__ import annotations

import gc
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median, quantiles
from typing import Any

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}
PACKAGES = ("numpy", "llvmlite", "torch", "jax")


@dataclass(frozen=True)
class Samples:
    """Seconds that one candidate took, one for each round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Half the samples are below."""
        return median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """The 10th and the 90th percentile."""
        if len(self.seconds) < 2:
            return self.seconds[0], self.seconds[0]
        cuts = quantiles(self.seconds, n=10, method="inclusive")
        return cuts[0], cuts[-1]


def interleaved(candidates: dict[str, Callable[[], float]], rounds: int) -> dict[str, Samples]:
    """Samples of each candidate, a function that returns seconds; the first round warms up and is dropped."""
    names = list(candidates)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for k in range(rounds + 1):
        shift = k % len(names)
        for name in names[shift:] + names[:shift]:
            gc.collect()  # no candidate pays for the garbage of another
            taken = candidates[name]()
            if k:
                seconds[name].append(taken)
    return {name: Samples(tuple(taken)) for name, taken in seconds.items()}


def per_call(call: Callable[[], object], count: int) -> Callable[[], float]:
    """A candidate: the mean seconds of `count` calls in a row."""

    def sample() -> float:
        start = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - start) / count

    return sample


def hold_to_one_thread() -> None:
    """Start this program again, before it computes anything, unless its libraries were told to use one thread."""
    if any(os.environ.get(name) != value for name, value in ONE_THREAD.items()):
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **ONE_THREAD})


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows under a header, the first column to the left and numbers to the right."""
    lines = [header, *rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(header))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))])
        for first, *cells in lines
    )


def allowed_cores() -> list[int]:
    """The cores that this program may use, the last first; core 0 where the system does not tell."""
    return sorted(os.sched_getaffinity(0), reverse=True) if hasattr(os, "sched_getaffinity") else [0]


def machine() -> str:
    """Processor, cores this program may use, system and versions, on one line."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    parts = [_processor(), f"{allowed} core(s) allowed", platform.system(), f"Python {platform.python_version()}"]
    return ", ".join([*parts, *(f"{name} {found}" for name in PACKAGES if (found := installed(name)))])


def installed(package: str) -> str | None:
    """The version of an installed package; None where it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def micro(seconds: float) -> str:
    """Seconds as microseconds."""
    return f"{seconds * 1e6:.2f} µs"


def milli(seconds: float) -> str:
    """Seconds as milliseconds."""
    return f"{seconds * 1e3:.1f} ms"


def _processor() -> str:
    """The processor's model as the system tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def torch_on_one_thread() -> dict[str, Any]:
    """PyTorch by its name, held to one thread; nothing, and a word about it, where it is not installed."""
    if installed("torch") is None:
        print("torch is not installed: its column stays empty (ADJOINT_ORACLE=1 has it installed)")
        return {}
    import torch

    torch.set_num_threads(1)
    return {"torch": torch}
