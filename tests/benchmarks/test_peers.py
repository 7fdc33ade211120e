"""The driver of the benchmarks: processes that take turns, what counts as the fastest peer, bounds, the picture."""

import importlib.util
import os
import xml.etree.ElementTree as ET

import pytest
from benchmarks import bars, contest, eager, limits, measure, peers, variants
from benchmarks.workloads.workload import Work

import adjoint as ad

KIB = 1 << 10


def outcome(seconds: float, apart: float = 0.0) -> contest.Outcome:
    samples = measure.Samples((seconds, 2 * seconds, 3 * seconds))
    return contest.Outcome(wall=samples, cpu=samples, apart=apart)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processes are pinned to cores")
@pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="needs llvmlite")
def test_processes_take_turns_and_agree() -> None:
    told: list[str] = []
    ways = {name: variants.VARIANTS[name] for name in (variants.OURS, variants.EAGER)}
    found = contest.contest("captured", 1, sorted(os.sched_getaffinity(0)), 2, 1e-4, told.append, ways)
    assert list(found) == list(ways)
    for each in found.values():
        assert each.agrees
        assert len(each.wall.seconds) == 2
        assert each.peak > 0
    assert "round 2 of 2" in told


def test_a_process_that_fails_is_an_outcome() -> None:
    with contest.started("captured", "no such variant", 1, [0]) as process, pytest.raises(contest.Failed):
        process.answer()


def test_fastest_peer_is_not_ours_and_computed_the_same() -> None:
    found = {
        "adjoint compiled": outcome(1.0), "torch eager": outcome(4.0),
        "jax.jit, state donated": outcome(2.0, apart=0.1), "torch.compile": contest.Outcome(absent="not yet"),
    }  # fmt: skip
    assert contest.fastest(found, "cpu") == ("torch eager", 8.0)
    assert contest.fastest({"adjoint compiled": outcome(1.0)}, "cpu") is None


def test_difference_is_relative_to_the_largest_number_of_a_call() -> None:
    assert variants.difference([[1.0, 100.0]], [[2.0, 100.0]]) == 0.01
    assert variants.difference([[0.0]], [[0.0]]) == 0.0


def test_bandwidth_is_that_of_the_largest_set_within() -> None:
    limit = limits.Limits(1e9, {KIB: 4e9, 64 * KIB: 2e9})
    assert (limit.bytes_per_second(10), limit.bytes_per_second(63 * KIB)) == (4e9, 4e9)
    assert limit.bytes_per_second(1e9) == limit.memory == 2e9


def test_bound_is_the_larger_of_both() -> None:
    assert Work(2e9, 1e9).bound(1e9, 1e9) == 2.0
    assert Work(2e9, 4e9).bound(1e9, 1e9) == 4.0


def test_summary_compares_with_the_fastest_peer() -> None:
    limit = limits.Limits(1e9, {KIB: 1e9})
    found = {"adjoint compiled": outcome(1e-3), "adjoint eager": outcome(5e-3), "torch eager": outcome(4e-3)}
    line = peers._summary(1, {"mlp-64": found}, limit).splitlines()[-1].split()
    assert line[0] == "mlp-64"
    assert "4.00" in line
    assert line[-5:-2] == ["≥", "3", "✓"]


def test_lengths_of_time_have_three_figures() -> None:
    assert [peers.short(s) for s in (1.2345e-6, 2.5e-3, 123.4e-3, 12.0)] == ["1.23 µs", "2.50 ms", "123 ms", "12.0 s"]


def test_picture_is_svg_with_a_bar_for_each_library() -> None:
    each = {"adjoint compiled": outcome(1e-3), "torch eager": outcome(4e-3), "torch.compile": outcome(2e-3)}
    each |= {"torch.compile, one graph": outcome(1e-3, apart=1.0), "jax.jit": contest.Outcome(absent="not there")}
    lines = {"x": {"title": "a < b", "variants": {name: peers.facts(o) for name, o in each.items()}}}
    text = bars.picture({"machine": "any & all", "workloads": {"1": lines}})
    root = ET.fromstring(text)
    widths = [float(bar.get("width", "")) for bar in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[0] * 2 == pytest.approx(widths[1], rel=0.01)
    assert "× 2.00" in text


def test_eager_calls_take_turns_and_agree_in_their_names() -> None:
    assert not set(eager.RECORDED) & set(eager.UNRECORDED)
    taken: list[str] = []
    samples = eager.side_by_side({name: lambda name=name: taken.append(name) for name in ("a", "b")}, 3)
    assert [len(each.seconds) for each in samples.values()] == [3, 3]
    assert min(taken.count(name) for name in "ab") > 3


@pytest.mark.parametrize("recorded", [False, True])
def test_every_eager_call_runs(recorded: bool) -> None:
    operands = eager.Operands(ad, recorded)
    for name, make in (eager.RECORDED if recorded else eager.RECORDED | eager.UNRECORDED).items():
        found = make(ad, operands)()
        first = found[0] if isinstance(found, tuple) else found
        assert getattr(first, "requires_grad", False) is recorded, name
