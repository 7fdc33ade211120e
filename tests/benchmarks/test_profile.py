"""The profile of a compiled step: a line and an event for each entry, each computed by itself."""

import pytest

pytest.importorskip("llvmlite")

import numpy as np
from benchmarks.limits import Limits
from benchmarks.profile import pieces, profile, told, trace
from benchmarks.workloads import TINY

import adjoint as ad

LIMIT = Limits(1e11, {1: 1e10})


@pytest.mark.parametrize("name", ["mlp", "cnn", "gpt"])
def test_every_entry_has_its_line_and_event(name: str) -> None:
    whole, timed = profile(TINY[name], LIMIT, 1e-4)
    assert whole > 0
    assert [each.entry.number for each in timed] == list(range(len(timed)))
    lines = told(timed, whole).splitlines()
    assert len(lines) == len(timed) + 4  # two above, two below
    events = trace(timed)["traceEvents"]
    assert [event["cat"] for event in events] == [each.entry.kind for each in timed]
    ends = [event["ts"] + event["dur"] for event in events]
    assert all(end == pytest.approx(after["ts"]) for end, after in zip(ends, events[1:], strict=False))


def test_entries_in_order_are_the_step() -> None:
    w = ad.tensor(np.full((3, 2), 0.5, np.float32))

    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        w.add_((x @ w).sum())
        return w.sum()

    x = ad.ones(4, 3)
    result = step(x)
    before = w.numpy().copy()
    for piece in pieces(step, (x,)):
        piece.run(1)
    assert result.shape == ()
    np.testing.assert_allclose(w.numpy(), before + 4 * before.sum(), rtol=1e-5)
