"""Random training steps: compiled, with native code and without it, they do what they do eagerly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.fuzz.compiled.generate import written
from tests.support.fuzz.compiled.programs import difference, shrunk
from tests.support.scripts import PATHS, output_of

pytest.importorskip("llvmlite")
EACH = 25


def check(first: int, native: int) -> None:
    """Fail with the shortest program, of `EACH` from this number, that differs; one in `native` runs natively too."""
    for number in range(first, first + EACH):
        program = written(number)
        found = difference(program, (False,) if number % native else (False, True))
        if found is not None:
            short = shrunk(program)
            pytest.fail(f"program {number}: {difference(short)}\n{short}")


@pytest.mark.sweep(10)
@pytest.mark.parametrize("first", range(0, 500, EACH))
def test_programs(first: int) -> None:
    check(first, native=4)  # half of the time would go to LLVM


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(500, 51_000, EACH))
def test_more_programs(first: int) -> None:
    check(first, native=1)


# In a process of its own: kernels stay in the caches of one, so later tests would run the faulty ones.
FAULTY = """
from adjoint.compiler.llvm.arithmetic import Arithmetic
from tests.support.fuzz.compiled.generate import written
from tests.support.fuzz.compiled.programs import difference, shrunk

subtract = Arithmetic.sub

def subtract_wrongly(self, x, y):
    result = subtract(self, x, y)
    return self.neg(result) if result.type.is_float else result  # with wrong integers nothing would run

Arithmetic.sub = subtract_wrongly
program = next(p for p in map(written, range(50)) if (difference(p) or "").startswith("native: call"))
short = shrunk(program)
print(len(short.body) + len(short.setup))
"""


def test_a_fault_is_found_and_cut_down(tmp_path: Path) -> None:
    """Were native subtraction the wrong way round, a program of few lines would show it."""
    paths = os.pathsep.join((*PATHS, str(Path(__file__).parents[2])))
    assert int(output_of(FAULTY, PYTHONPATH=paths, ADJOINT_CACHE_DIR=str(tmp_path))) <= 5


def test_a_program_runs_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(str(written(0)), "<program>", "exec"), {})
    assert capsys.readouterr().out.count("\n") >= 3
