"""Times of a training region's calls, eager and compiled, and the decision to leave it to the eager run."""

from __future__ import annotations

from statistics import median_low

CALLS_ON_TRIAL = 32  # by the end of which a compiled region must be faster than it is eagerly
CALLS_BETWEEN_SAMPLES = (
    4  # on trial, every such call is eager: its inputs, and the machine, are those of its neighbours
)
CALLS_BEFORE_VERDICT = 8  # compiled ones, from which on a region may be given up: at first if most were much slower
MUCH_SLOWER = 20.0  # times: it is being compiled, again and again, at high cost
MAX_CALLS_BETWEEN_REVIEWS = 1024
MAX_COMPILATIONS_BETWEEN_REVIEWS = 3  # one for the last batch of an epoch, one for a change of the model


class RegionTimes:
    """The times of a region's calls. A review of the latest compiled ones comes whenever their number has doubled."""

    def __init__(self) -> None:
        self.eager: list[float] = []  # but for the first call, which makes gradients and moments
        self.first_eager: float | None = None
        self.latest: list[float] = []  # compiled calls since the last review
        self.compiled_calls, self.total_seconds = 0, 0.0
        self._typical_seconds = 0.0  # of the calls that were reviewed last
        self._compilations = 0  # at the last review

    @property
    def eager_seconds(self) -> float:
        """What a call usually takes eagerly."""
        return median_low(self.eager) if self.eager else self.first_eager or 0.0

    @property
    def typical_seconds(self) -> float:
        """What a call usually takes compiled."""
        return self._typical_seconds or (median_low(self.latest) if self.latest else 0.0)

    @property
    def saved_seconds(self) -> float:
        """What the compiled calls have saved, compilation counted."""
        return self.compiled_calls * self.eager_seconds - self.total_seconds

    @property
    def wants_sample(self) -> bool:
        """Tell whether the next call is to run eagerly, for comparison."""
        sampled = (len(self.eager) - 1) * (CALLS_BETWEEN_SAMPLES - 1)
        return self.compiled_calls < CALLS_ON_TRIAL and 0 <= sampled < self.compiled_calls

    def note_eager(self, seconds: float) -> None:
        """Take note of an eager call."""
        if self.first_eager is None:
            self.first_eager = seconds
        else:
            self.eager.append(seconds)

    def note_compiled(self, seconds: float) -> bool:
        """Take note of a compiled call; tells whether it is time for a review."""
        self.compiled_calls += 1
        self.total_seconds += seconds
        self.latest.append(seconds)
        calls = self.compiled_calls
        return calls % MAX_CALLS_BETWEEN_REVIEWS == 0 or (calls >= CALLS_BEFORE_VERDICT and not calls & (calls - 1))

    def review(self, compilations: int) -> str | None:
        """Return why the region is to run eagerly from now on, after so many compilations in all; None to go on."""
        latest, self.latest = self.latest, []
        made, self._compilations = compilations - self._compilations, compilations
        self._typical_seconds, eager = median_low(latest), self.eager_seconds
        allowed = 1.0 if self.compiled_calls >= CALLS_ON_TRIAL else MUCH_SLOWER
        if self.compiled_calls <= CALLS_ON_TRIAL and self.typical_seconds > allowed * eager:
            return f"compiled it is slower, {self.typical_seconds * 1e3:.3g} ms for {eager * 1e3:.3g} ms"
        is_first = len(latest) == self.compiled_calls  # programs are still being made
        if made > MAX_COMPILATIONS_BETWEEN_REVIEWS and sum(latest) > len(latest) * eager and not is_first:
            return (
                f"it was compiled {made} times in {len(latest)} calls, which took longer than they would have eagerly"
            )
        return None
