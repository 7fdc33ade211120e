"""Times of a training region's calls, eager and compiled, and the decision to leave it to the eager run."""

from __future__ import annotations

from statistics import median_low

CALLS_ON_TRIAL = 32  # by the end of which a compiled region must be faster than it is eagerly
CALLS_BETWEEN_SAMPLES = 4  # on trial, each such call is eager: inputs and machine are those of its neighbours
CALLS_BEFORE_VERDICT = 4  # compiled ones, when a region is given up that has cost much so far; after 8 one that is slow
MUCH_SLOWER = 20.0  # times: it is being compiled, again and again
MUCH_SECONDS = 5.0  # for a trial that has shown nothing yet
MAX_CALLS_BETWEEN_REVIEWS = 1024
MIN_GAIN = 1.5  # times faster: worth the compilations of one more period
MAX_COMPILATIONS_BETWEEN_REVIEWS = 3  # one for the last batch of an epoch, one for a change of the model
MAX_CALLS_BEFORE_COMPILING = 12  # eager ones: fewer where these have taken half of the time that compiling will take
SECONDS_TO_COMPILE, SECONDS_TO_COMPILE_A_NODE = 1.0, 0.02  # of the graph of a step, about
MUCH_DEARER = 1.25  # times: calls that begin on the way of a program, and end eagerly
FREE_PROGRAMS = 2  # the first one, and that for a second size
MAX_LOSS_SECONDS, MAX_LOSS_SHARE = 2.0, 0.5  # by compilation, with which one more program is made: in all, of the calls


class RegionTimes:
    """The times of a region's calls. A review of the latest compiled ones comes whenever their number has doubled."""

    def __init__(self) -> None:
        self.eager: list[float] = []  # but for the first call, which makes gradients and moments
        self.first_eager: float | None = None
        self.latest: list[float] = []  # compiled calls since the last review
        self.compiled_calls, self.total_seconds = 0, 0.0
        self._typical_seconds = 0.0  # of the calls that were reviewed last
        self._compilations = 0  # at the last review
        self._was_costly = False  # it was compiled often before the last review
        self.refused_calls = 0  # compiled calls that ran eagerly, for want of a program
        self._refused: list[float] = []  # those since the last review
        self._is_refused = self._is_compiled = False  # the call that runs is one, or makes a program
        self._compilation_seconds: list[float] = []  # of those among the latest calls that made a program

    @property
    def eager_seconds(self) -> float:
        """The usual seconds of an eager call."""
        return median_low(self.eager) if self.eager else self.first_eager or 0.0

    @property
    def typical_seconds(self) -> float:
        """The usual seconds of a compiled call."""
        return self._typical_seconds or (median_low(self.latest) if self.latest else 0.0)

    @property
    def saved_seconds(self) -> float:
        """The seconds that the compiled calls have saved, less those of compilation."""
        return self.compiled_calls * self.eager_seconds - self.total_seconds

    @property
    def wants_sample(self) -> bool:
        """Tell whether the next call is to run eagerly, for comparison."""
        sampled = (len(self.eager) - 1) * (CALLS_BETWEEN_SAMPLES - 1)
        return self.compiled_calls < CALLS_ON_TRIAL and 0 <= sampled < self.compiled_calls

    def is_due(self, nodes: int) -> bool:
        """Tell whether to compile a step whose graph has so many nodes: a program of few steps ends before that."""
        seconds = SECONDS_TO_COMPILE + SECONDS_TO_COMPILE_A_NODE * nodes
        calls = [self.first_eager or 0.0, *self.eager]
        return len(calls) >= MAX_CALLS_BEFORE_COMPILING or 2 * sum(calls) >= seconds

    def can_afford(self, compilations: int) -> bool:
        """Tell whether one more program may be made, after so many: what they lose in all is little beside the calls.

        Ever new sizes, or ways through the decisions of a step, run eagerly until those that come again have saved it.
        """
        allowed = max(MAX_LOSS_SECONDS, MAX_LOSS_SHARE * self.compiled_calls * self.eager_seconds)
        self._is_compiled = compilations < FREE_PROGRAMS or -self.saved_seconds < allowed
        return self._is_compiled

    def note_refusal(self) -> None:
        """Take note that the call which runs has no program, and gets none."""
        self._is_refused = True

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
        if self._is_refused:
            self.refused_calls += 1
            self._refused.append(seconds)
        else:
            self.latest.append(seconds)
            self._compilation_seconds += [seconds] * self._is_compiled
        self._is_refused = self._is_compiled = False
        calls = self.compiled_calls
        return calls % MAX_CALLS_BETWEEN_REVIEWS == 0 or (calls >= CALLS_BEFORE_VERDICT and not calls & (calls - 1))

    def review(self, compilations: int) -> str | None:
        """Return why the region is to run eagerly from now on, after so many compilations in all; None to go on."""
        latest, self.latest = self.latest, []
        made, self._compilations = compilations - self._compilations, compilations
        is_first, is_settled = len(latest) == self.compiled_calls, self.compiled_calls >= CALLS_ON_TRIAL
        usual, self._compilation_seconds, compiling = list(latest), [], self._compilation_seconds
        for seconds in compiling:
            usual.remove(seconds)
        refused, self._refused = self._refused, []
        is_rare = len(refused) > len(latest) and median_low(refused) > MUCH_DEARER * self.eager_seconds
        if not usual or (is_settled and is_rare):
            return f"nearly each call is another than the {compilations} compiled ones" if is_settled else None
        self._typical_seconds, eager = min(usual) if is_first else median_low(usual), self.eager_seconds
        allowed = 1.0 if is_settled else MUCH_SLOWER
        is_doubtful = self.compiled_calls <= CALLS_ON_TRIAL and not (is_first and sum(latest) < MUCH_SECONDS)
        if is_doubtful and self.typical_seconds > allowed * eager:
            return f"compiled it is slower, {self.typical_seconds * 1e3:.3g} ms for {eager * 1e3:.3g} ms"
        was_costly = self._was_costly
        is_costly = is_settled and made > MAX_COMPILATIONS_BETWEEN_REVIEWS and sum(latest) > len(latest) * eager
        self._was_costly = (
            is_costly and self.typical_seconds * MIN_GAIN < eager
        )  # then it may have been all of its ways
        if is_costly and (was_costly or not self._was_costly):
            return (
                f"it was compiled {made} times in {len(latest)} calls, which took longer than they would have eagerly"
            )
        return None
