"""Each load, at a size that takes no time, computes the same eagerly, compiled, and in PyTorch."""

import importlib.util

import pytest
from benchmarks.contest import Outcome
from benchmarks.general import summarize
from benchmarks.measure import Samples
from benchmarks.variants import EAGER, OURS, VARIANTS, difference, numbers
from benchmarks.workloads.general import LOADS, TINY_LOADS

CALLS = 3
needs_llvmlite = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="needs llvmlite")


def run_load(name: str, variant: str) -> list[list[float]]:
    """Numbers of the results of a few calls, each on another batch."""
    load, way = TINY_LOADS[name], VARIANTS[variant]
    start = load.start()
    step = way.make(load, start)
    assert step is not None
    return [numbers(step(*map(way.array, batch))) for batch in start.batches[:CALLS]]


@pytest.mark.sweep(3)
@needs_llvmlite
@pytest.mark.parametrize("name", TINY_LOADS)
def test_compiled_loads_compute_what_eager_ones_do(name: str) -> None:
    expected = run_load(name, EAGER)
    assert difference(run_load(name, OURS), expected) < 1e-5
    assert len(set(map(tuple, expected))) == CALLS, "equal results of different batches would show little"


@pytest.mark.parametrize("name", TINY_LOADS)
def test_eager_loads_compute_what_pytorch_does(name: str) -> None:
    pytest.importorskip("torch")
    assert difference(run_load(name, EAGER), run_load(name, "torch eager")) < 1e-4


def test_every_load_has_a_tiny_one() -> None:
    assert list(LOADS) == list(TINY_LOADS)


def test_the_summary_has_ratios_and_marks_what_misses_its_target() -> None:
    def outcome(seconds: float) -> Outcome:
        return Outcome(wall=Samples((seconds,)), cpu=Samples((seconds,)))

    outcomes = {"points": {OURS: outcome(1.0), EAGER: outcome(4.0), "torch eager": outcome(3.0)}}
    line = summarize(outcomes, 1).splitlines()[3]
    assert "0.75 ✗" in line
    assert "3.00" in line
    assert "3.00 ✗" not in line
