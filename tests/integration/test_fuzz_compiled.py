"""Random training steps: compiled, with native code and without it, they do what they do eagerly."""

from __future__ import annotations

import pytest
from tests.support.fuzz.compiled.generate import written
from tests.support.fuzz.compiled.programs import difference, shrunk

from adjoint.compiler.cache import plan_cache
from adjoint.compiler.llvm.arithmetic import Arithmetic

pytest.importorskip("llvmlite")
EACH = 50


def check(first: int, native: int) -> None:
    """Fail with the shortest program, of `EACH` from this number, that differs; one in `native` runs natively too."""
    for number in range(first, first + EACH):
        program = written(number)
        found = difference(program, (False,) if number % native else (False, True))
        if found is not None:
            short = shrunk(program)
            pytest.fail(f"program {number}: {difference(short)}\n{short}")


@pytest.mark.sweep(2)
@pytest.mark.parametrize("first", range(0, 500, EACH))
def test_programs(first: int) -> None:
    check(first, native=4)  # half of the time would go to LLVM


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(500, 51_000, EACH))
def test_more_programs(first: int) -> None:
    check(first, native=1)


def test_a_fault_is_found_and_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were native subtraction the wrong way round, a program of few lines would show it."""
    monkeypatch.setattr(plan_cache, "default_disk_cache", lambda: None)  # which has plans with the right code
    monkeypatch.setattr(Arithmetic, "sub", lambda self, x, y: Arithmetic.neg(self, Arithmetic.add(self, x, y)))
    program = next(p for p in map(written, range(EACH)) if (difference(p) or "").startswith("native: call"))
    short = shrunk(program)
    assert len(short.body) + len(short.setup) <= 5


def test_a_program_runs_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(str(written(0)), "<program>", "exec"), {})
    assert capsys.readouterr().out.count("\n") >= 3
