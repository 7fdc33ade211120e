"""Advice names what was measured, with the line and what to write instead; a warning comes once, after 50 calls."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")
import adjoint as ad
from adjoint.compiler.report import advice
from adjoint.compiler.report.advice import OBSERVED_CALLS, CallCosts
from adjoint.compiler.trace.guards import GuardFailure
from adjoint.core.graph.source_location import Site

HERE = Site("train.py", 7, "step")
TABLE = np.arange(5000.0)


def compared(x: Any) -> Any:
    return x * float(TABLE.sum())  # the line that reads the table


def in_numpy(x: Any) -> Any:
    return ad.special.bessel_j1(x)  # the line of the call


def copying() -> Callable[[Any], Any]:
    w = ad.randn(6, 50)[:, ::2].t()
    return lambda x: x[:25] @ w.sin()[:25]


def lines_of(function: Callable[..., Any]) -> range:
    lines, start = inspect.getsourcelines(function)
    return range(start, start + len(lines))


@pytest.fixture
def _all_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever small cost is listed, and none is warned of."""
    monkeypatch.setattr(advice, "MIN_LISTED_SHARE", 0.0)
    monkeypatch.setattr(advice, "MIN_COST_SECONDS", 10.0)
    monkeypatch.setattr(advice, "EARLY_CALLS", 0)


@pytest.mark.usefixtures("_all_told")
@pytest.mark.parametrize(
    ("step", "what"), [(compared, "comparing contents of a ndarray"), (in_numpy, "bessel_j1, as a call of NumPy,")]
)
def test_a_cost_is_named_with_its_line(step: Callable[[Any], Any], what: str) -> None:
    compiled = ad.compile(step)
    x = ad.randn(50)
    for _ in range(OBSERVED_CALLS + 10):
        assert compiled(x).allclose(step(x), rtol=1e-4)
    (told,) = [each for each in compiled.advice() if each.what == what]
    assert told.site is not None
    assert told.site.line in lines_of(step)
    assert told.seconds > 0
    assert told.instead in str(compiled.advice())


@pytest.mark.usefixtures("_all_told")
def test_traces_that_do_not_end() -> None:
    box = SimpleNamespace(name="a")
    compiled = ad.compile(lambda x: x * len(box.name))
    x = ad.ones(2)
    for n in range(12):
        box.name = "a" * (n + 1)
        compiled(x)
    (told,) = [each for each in compiled.advice() if each.what.startswith("tracing again")]
    assert "attribute 'name' of SimpleNamespace" in told.what
    assert told.site is not None
    assert told.site.file == __file__


@pytest.mark.usefixtures("_all_told")
def test_sizes_that_run_eagerly() -> None:
    compiled = ad.compile(lambda x: x * 2.0, dynamic=False)
    for n in range(1, 15):
        compiled(ad.ones(n, 3))
    assert "running eagerly, for sizes that are not compiled," in [each.what for each in compiled.advice()]


@pytest.mark.usefixtures("_all_told")
def test_a_step_of_kernels_is_not_observed() -> None:
    w = ad.ones(3, requires_grad=True)

    @ad.compile
    def step(x: Any) -> Any:
        w.grad = None
        loss = (w * x).sin().sum()
        loss.backward()
        return loss

    for _ in range(OBSERVED_CALLS + 10):
        step(ad.ones(3))
    assert step._latest.run is step._latest.program.run
    assert [each for each in step.advice() if "comparing" not in each.what] == []
    assert str(ad.compile(lambda x: x).advice()) == "Nothing was seen that this step could do without."


@pytest.mark.usefixtures("_all_told")
def test_observation_ends_and_leaves_no_trace() -> None:
    compiled = ad.compile(in_numpy)
    x = ad.randn(20)
    for _ in range(3):
        compiled(x)
    entry = compiled._latest
    assert entry.run is entry.observed
    for _ in range(OBSERVED_CALLS + 3):
        compiled(x)
    assert entry.observed is None
    assert entry.run is entry.program.run
    names = entry.program.names
    assert all(not hasattr(names[name], "args") for name in entry.program.numpy_calls)


def costs_of(overhead: float, *, calls: int = OBSERVED_CALLS) -> CallCosts:
    costs = CallCosts("step")
    for _ in range(calls - 1):
        costs.add("comparing a table", HERE, "keep it in a tensor", overhead)
        costs.finish_call(100e-6, "key")
    costs.add("comparing a table", HERE, "keep it in a tensor", overhead)
    return costs


def test_a_warning_comes_once_after_fifty_calls() -> None:
    costs = costs_of(80e-6)
    with pytest.warns(RuntimeWarning, match="comparing a table at train.py:7 takes 80 µs of a call") as caught:
        costs.finish_call(100e-6, "key")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3 * OBSERVED_CALLS):
            costs.add("comparing a table", HERE, "keep it in a tensor", 80e-6)
            costs.finish_call(100e-6, "key")


@pytest.mark.parametrize("overhead", [30e-6, 0.0])
def test_nothing_is_said_of_what_is_not_most_of_the_time(overhead: float) -> None:
    costs = costs_of(overhead)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        costs.finish_call(100e-6, "key")
    assert [each.what for each in costs.advice()] == (["comparing a table"] if overhead else [])


def test_interruptions_do_not_hide_a_cost() -> None:
    costs = costs_of(80e-6, calls=30)
    costs.finish_call(1.0, "key")
    assert costs.advice()[0].share > 0.7


def test_a_step_is_called_slower_than_eager_only_where_both_were_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = CallCosts("step")
    for _ in range(advice.MIN_REPEATS - 1):
        costs.finish_call(900e-6, "key")
    assert costs.advice() == ()
    monkeypatch.setattr(advice, "perf_counter", iter([0.0, 300e-6]).__next__)
    assert costs.run_eagerly("key", lambda: 5, sized=True) == 5
    assert costs.advice() == (), "a few compiled calls may all have been interrupted"
    costs.finish_call(900e-6, "key")
    (told,) = costs.advice()
    assert told.what == "compiling instead of running eagerly, in 300 µs,"
    assert told.seconds == pytest.approx(600e-6)


def test_changes_are_named_by_the_first() -> None:
    costs = CallCosts("step")
    for _ in range(advice.MIN_REPEATS):
        costs.add_change("tracing again", [GuardFailure("global 'n'", "1", "2", HERE)], advice.TRACED, 0.1)
    costs.add_change("tracing again", [], advice.TRACED, 0.1)
    assert str(costs.advice()).startswith(
        "tracing again because global 'n' changes at train.py:7 takes 800000 µs of a call, 100%: keep what "
    )


def test_beginnings_are_no_habit() -> None:
    costs = CallCosts("step")
    moved = [GuardFailure("the memory of weight", "", "", None)]
    for n in range(advice.EARLY_CALLS + advice.MIN_REPEATS - 1):
        costs.add_change("comparing all guards", moved, advice.RENEWED, 0.1)
        assert costs.advice() == (), n
        costs.finish_call(1e-5, "key")
    costs.add_change("comparing all guards", moved, advice.RENEWED, 0.1)
    assert [each.what for each in costs.advice()] == ["comparing all guards because the memory of weight changes"]
    assert costs.advice()[0].share <= 1.0
