"""Decisions about a training region, from the times of its calls."""

from __future__ import annotations

import pytest

from adjoint.compiler.scripts import region_times
from adjoint.compiler.scripts.region_times import CALLS_BETWEEN_SAMPLES, CALLS_ON_TRIAL, RegionTimes


def run_calls(times: RegionTimes, compiled: list[float], compilations: list[int]) -> tuple[int, str | None]:
    """The number of compiled calls until the region is given up, and why; the first compilation is not told."""
    for call, seconds in enumerate(compiled):
        if times.note_compiled(seconds) and (reason := times.review(compilations[call])) is not None:
            return call + 1, reason
    return len(compiled), None


def make_times(eager: float = 0.010) -> RegionTimes:
    times = RegionTimes()
    for seconds in (9.0, eager, eager):
        times.note_eager(seconds)
    return times


@pytest.mark.parametrize(
    ("seconds", "calls"),
    [(0.009, 200), (0.011, CALLS_ON_TRIAL), (0.3, 8), (2.0, 4)],
    ids=["faster", "slower", "much slower", "at great cost"],
)
def test_slower_region_is_given_up_at_the_end_of_its_trial(seconds: float, calls: int) -> None:
    found, reason = run_calls(make_times(), [2.0] + [seconds] * 199, [1] * 200)
    assert found == calls
    assert (reason is None) is (seconds < 0.010)


def test_later_calls_may_take_longer_without_compilation() -> None:
    assert run_calls(make_times(), [0.001] * 64 + [0.1] * 3000, [1] * 3064) == (3064, None)


def test_region_that_is_compiled_again_and_again_is_given_up_if_that_costs_more_than_it_saves() -> None:
    for usual, found in ((0.009, 32), (0.001, 64)):  # one that is much faster gets one more period
        seconds = [0.5 if call % 4 == 0 else usual for call in range(200)]
        calls, reason = run_calls(make_times(), seconds, [1 + call // 4 for call in range(200)])
        told = (
            f"it was compiled {found // 8} times in {found // 2} calls, which took longer than they would have eagerly"
        )
        assert (calls, reason) == (found, told)
    settled = [0.5 if call < 32 and call % 4 == 0 else 0.001 for call in range(200)]
    assert run_calls(make_times(), settled, [1 + min(call, 31) // 4 for call in range(200)])[1] is None
    cheap = [0.005 if call % 4 == 0 else 0.001 for call in range(200)]
    assert run_calls(make_times(), cheap, [1 + call // 4 for call in range(200)])[1] is None


def test_samples_are_spread_over_the_trial() -> None:
    times, order = make_times(), ""
    while len(order) < 60:
        if times.wants_sample:
            times.note_eager(0.010)
            order += "e"
        else:
            times.note_compiled(0.001)
            order += "c"
    trial = order.rindex("e") + 1
    assert order.count("e") == pytest.approx(trial / CALLS_BETWEEN_SAMPLES, abs=1)
    assert order[:trial].count("c") < CALLS_ON_TRIAL
    assert "ee" not in order
    assert times.eager_seconds == 0.010
    assert times.saved_seconds == pytest.approx(0.009 * times.compiled_calls)


def test_long_steps_are_compiled_soon_and_programs_of_few_steps_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region_times, "MAX_CALLS_BEFORE_COMPILING", 5)
    for seconds, nodes, found in ((1.0, 10, 1), (1.0, 300, 4), (0.001, 10, 5)):
        times, calls = RegionTimes(), 0
        while not times.is_due(nodes):
            times.note_eager(seconds)
            calls += 1
        assert calls == found


def test_programs_for_ever_new_calls_are_made_as_far_as_they_are_paid() -> None:
    times, made = make_times(), 0
    for call in range(400):
        if times.can_afford(made):
            times.note_compiled(1.5)
            made += 1
        else:
            times.note_refusal()
            times.note_compiled(0.010)
        if call == 100:
            assert made == 2
            times.compiled_calls, times.total_seconds = 1000, 4.0  # the programs have saved what they cost
    assert made == 11  # 9 more in 13 seconds: 6 that were saved, half of 14 that the calls take eagerly
    assert times.refused_calls == 400 - made


def test_region_of_ever_new_calls_is_given_up_at_the_end_of_its_trial() -> None:
    times, made, reasons = make_times(), 0, []
    for _ in range(CALLS_ON_TRIAL):
        if times.can_afford(made):
            made += 1
        else:
            times.note_refusal()
        if times.note_compiled(1.5 if made < 2 else 0.010):
            reasons.append(times.review(made))
    assert reasons == [None, None, None, f"nearly each call is another than the {made} compiled ones"]


def test_region_whose_calls_mostly_begin_on_another_way_is_given_up_if_that_costs_more() -> None:
    for seconds, found in ((0.011, None), (0.015, "nearly each call is another than the 2 compiled ones")):
        times, reason = make_times(), None
        for call in range(CALLS_ON_TRIAL):
            if call % 4:
                times.note_refusal()
            if times.note_compiled(seconds if call % 4 else 0.001):
                reason = times.review(2)
        assert reason == found
