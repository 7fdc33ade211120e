"""The benchmark of steps beside other work: its models train, its children answer, its busy loops end."""

from __future__ import annotations

import subprocess
import sys

import pytest
from benchmarks import beside

import adjoint as ad


@pytest.mark.parametrize("name", beside.LOADS)
def test_a_model_takes_its_batches(name: str) -> None:
    load = beside.LOADS[name]
    x, y = load.batches()[0]
    scores = load.build(ad)(ad.tensor(x)).reshape(-1, load.symbols)
    assert scores.shape == (y.size, load.symbols)


def test_busy_loops_run_within_the_block() -> None:
    before = subprocess.Popen.__init__
    started: list[subprocess.Popen[bytes]] = []

    def start(self: subprocess.Popen[bytes], *arguments: object, **options: object) -> None:
        before(self, *arguments, **options)  # type: ignore[call-overload]
        started.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", start)
        with beside.busy_loops(2):
            assert [loop.poll() for loop in started] == [None, None]
    assert all(loop.poll() is not None for loop in started)


def test_a_child_answers_each_turn_with_the_seconds_of_a_step() -> None:
    answer = "print('ready', flush=True)\nfor line in open(0): print(float(line) / 2, flush=True)"
    child = subprocess.Popen(
        [sys.executable, "-S", "-c", answer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    assert [beside.take_turn([child], seconds) for seconds in (0.5, 3.0)] == [0.25, 1.5]
    child.kill()
    child.communicate()
