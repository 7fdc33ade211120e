"""Random programs of views, in-place writes and gradients: Adjoint does what PyTorch does."""

from __future__ import annotations

import pytest
from tests.support.fuzz.eager.generate import written
from tests.support.fuzz.eager.programs import Line, difference, printed, shrunk

from adjoint.ops.mutation import inplace

EACH = 100


def check(first: int) -> None:
    """Fail with the shortest program, of `EACH` from this number, that differs."""
    for number in range(first, first + EACH):
        program, theirs = written(number)
        if difference(program, theirs) is not None:
            short = shrunk(program)
            pytest.fail(f"program {number}: {difference(short)}\n{printed(short)}")


@pytest.mark.sweep(2)
@pytest.mark.parametrize("first", range(0, 2_000, EACH))
def test_programs(first: int) -> None:
    check(first)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(2_000, 50_000, EACH))
def test_more_programs(first: int) -> None:
    check(first)


def test_a_fault_is_found_and_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the base not told of a write through its view, the programs would show it in a few lines."""
    monkeypatch.setattr(inplace, "rebase", lambda x, node: setattr(x, "node", node))
    program = next(p for p, theirs in map(written, range(EACH)) if difference(p, theirs) is not None)
    short = shrunk(program)
    assert difference(short) is not None
    assert len(short) <= 7


def test_a_program_prints() -> None:
    program = (Line("v0 = leaf((3,), 1)"), Line("v0[1:].copy_(v0[:2])", "v0[1:].copy_(v0[:2].clone())"))
    assert printed(program) == "v0 = leaf((3,), 1)\nv0[1:].copy_(v0[:2])  # in torch: v0[1:].copy_(v0[:2].clone())"
