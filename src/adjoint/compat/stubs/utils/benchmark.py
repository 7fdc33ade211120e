"""`adjoint.utils.benchmark`: a timer of statements."""

from __future__ import annotations

import statistics
import timeit
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Measurement", "Timer"]


@dataclass
class Measurement:
    """Times of runs of a statement, in seconds, `number_per_run` statements each."""

    number_per_run: int
    raw_times: list[float] = field(repr=False)
    label: str = ""

    @property
    def times(self) -> list[float]:
        """Return the seconds of one statement, for each run."""
        return [seconds / self.number_per_run for seconds in self.raw_times]

    @property
    def median(self) -> float:
        """Return the seconds of one statement in the median run."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """Return the seconds of one statement in the mean."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """Return the seconds between the first and the third quartile."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    def __repr__(self) -> str:
        runs = f"{len(self.raw_times)} runs of {self.number_per_run}"
        return f"{self.label}: median {self.median * 1e6:.2f} us, IQR {self.iqr * 1e6:.2f} us ({runs})"


class Timer:
    """Timer of a statement, `stmt`, after `setup`, with these globals."""

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Any = timeit.default_timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
        description: str | None = None, env: str | None = None, num_threads: int = 1, language: object = None,
    ) -> None:  # fmt: skip
        self._timer = timeit.Timer(stmt, setup, timer, dict(globals or {}))
        self._label = ": ".join(filter(None, (label, sub_label, description))) or stmt

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Time one run of `number` statements."""
        self._timer.timeit(max(number // 100, 2))
        return Measurement(number, [self._timer.timeit(number)], self._label)

    def blocked_autorange(self, callback: object = None, min_run_time: float = 0.2) -> Measurement:
        """Time runs of as many statements as take a millisecond, until `min_run_time` seconds are over."""
        number, seconds = 1, self._timer.timeit(1)
        while seconds < 1e-3:
            number *= 10
            seconds = self._timer.timeit(number)
        times = [seconds]
        while sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
        return Measurement(number, times, self._label)

    adaptive_autorange = blocked_autorange
