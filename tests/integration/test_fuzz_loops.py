"""Random training loops with Python around them: compiled, they leave what they leave eagerly after every call."""

from __future__ import annotations

import pytest
from tests.support.fuzz.loops.generate import Loop, write_loop
from tests.support.fuzz.loops.programs import compare, shrink_loop

pytest.importorskip("llvmlite")
EACH = 10


def fault(loop: Loop) -> str | None:
    """Return how the compiled loop differs, or why it was refused."""
    differs, refused = compare(loop)
    return differs or refused


def check(first: int) -> None:
    """Fail with the shortest loop, of `EACH` from this number, that differs or is refused."""
    for number in range(first, first + EACH):
        if fault(write_loop(number)):
            short = shrink_loop(write_loop(number), lambda loop: fault(loop) is not None)
            pytest.fail(f"loop {number}: {fault(short)}\n{short}")


@pytest.mark.sweep(5)
@pytest.mark.parametrize("first", range(0, 100, EACH))
def test_loops(first: int) -> None:
    check(first)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(100, 2_100, EACH))
def test_more_loops(first: int) -> None:
    check(first)
