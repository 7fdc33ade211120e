"""Random training steps: compiled, with native code and without it, they do what they do eagerly."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from tests.compiler.fuzz_author import written
from tests.compiler.fuzz_programs import Program, difference, shrunk

from adjoint.compiler.llvm.arithmetic import Arithmetic

pytest.importorskip("llvmlite")
EACH = 50


class Fault(NamedTuple):
    """What is known to go wrong: what is said of it, and the smallest program of it."""

    said: str
    program: Program


# The random programs pass over these; each has a test of its own, which fails until it goes right.
OPEN: dict[str, Fault] = {
    "a tensor made in the step keeps its symbol": Fault(
        "'Value' object has no attribute 'base'",
        Program(
            ("s0 = data((3,), 366).requires_grad_()",), ("a0 = data((3,), 1 + call)",), "a0", "a0",
            ("v0 = s0.view_as(s0)", "v0.retain_grad()", "v0.mean().backward()"), "[]",
        ),
    ),
    "an argument is written of which there is a view": Fault(
        "TraceError: .* writes to memory that a view shares",
        Program(
            (), ("a0 = data((3, 2), 886 + call).mT",), "a0", "a0", ("v0 = a0.detach()", "a0[(None,)] = v0"), "[]",
        ),
    ),
    "what relu saved is written": Fault(
        "modified by an inplace operation",
        Program(
            (), ("a0 = data((3,), 1 + call)",), "a0", "a0",
            ("v0 = a0.detach().requires_grad_()", "v1 = v0 * a0", "F.relu(v1, inplace=True)", "v1.sin_()",
             "v1.mean().backward()"), "[]",
        ),
    ),
    "a parameter is written that a result's history saved": Fault(
        "modified by an inplace operation",
        Program(
            ("s0 = data((3,), 7).requires_grad_()", "optimizer = optim.SGD([s0], lr=0.05)"),
            ("a0 = data((3,), 1 + call)",), "a0", "a0",
            ("v0 = a0 * s0 * s0", "v0.sum().backward(retain_graph=True)", "optimizer.step()"), "[v0]",
        ),
    ),
    "a gradient that is one number everywhere is written": Fault(
        "assignment destination is read-only",
        Program(
            ("s0 = data((2, 3), 7).requires_grad_()",), ("a0 = data((2, 3), 1 + call)",), "a0", "a0",
            ("v0 = ad.autograd.grad(s0.sum(), s0)[0]", "v0[0] *= 3"), "[v0]",
        ),
    ),
    "a derivative is missed before it is asked for": Fault(
        "NotImplementedError: the derivative",
        Program(
            (), ("a0 = data((2,), 1 + call).requires_grad_()",), "a0", "a0", (), "[ad.heaviside(a0, a0 * 0)]",
        ),
    ),
}  # fmt: skip
# Wrong numbers: the author writes no such lines.
WRONG = {
    "one gradient is two leaves'": Program(
        ("s0 = data((), 7).requires_grad_()",), ("a0 = data((), 1 + call).requires_grad_()",), "a0", "a0",
        ("(s0 + a0).sum().backward()", "s0.grad.mul_(0.5)"), "[]",
    ),
    "a gradient that is one number everywhere is written as a whole": Program(
        (), ("a0 = data((3, 2), 1 + call).requires_grad_()",), "a0", "a0",
        ("v0 = ad.autograd.grad(a0.sum(), a0)[0]", "v0[-2, ...] += 0.5"), "[v0]",
    ),
    "flatten of what is not contiguous copies": Program(
        (), ("a0 = data((3, 5), 846 + call).mT",), "a0", "a0", ("v0 = a0.flatten()", "a0.tril_()"), "[v0]",
    ),
    "contiguous of what is not copies": Program(
        (), ("a0 = data((3, 2), 325 + call)",), "a0", "a0", ("v0 = a0.mT", "v1 = v0.contiguous()", "v0.add_(1)"),
        "[v1]",
    ),
    "an integer is divided by the number 0": Program(
        (), ("a0 = data((3,), 1 + call, 'int64')",), "a0", "a0", ("a0 // 0",), "[]",
    ),
    "a mask is written at": Program(
        (), ("a0 = data((3,), 1 + call)", "a1 = data((3,), 5 + call, 'bool')"), "a0, a1", "a0, a1",
        ("a0[a1] = 0.5",), "[a0]",
    ),
}  # fmt: skip


def check(first: int, native: int) -> None:
    """Fail with the shortest program, of `EACH` from this number, that differs; one in `native` runs natively too."""
    for number in range(first, first + EACH):
        program = written(number)
        found = difference(program, (False,) if number % native else (False, True))
        if found is not None and not any(re.search(fault.said, found) for fault in OPEN.values()):
            short = shrunk(program)
            pytest.fail(f"program {number}: {difference(short)}\n{short}")


@pytest.mark.parametrize("first", range(0, 1_000, EACH))
def test_programs(first: int) -> None:
    check(first, native=4)  # half of the time would go to LLVM


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(1_000, 51_000, EACH))
def test_more_programs(first: int) -> None:
    check(first, native=1)


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="known to go wrong")
@pytest.mark.parametrize("name", OPEN)
def test_open(name: str) -> None:
    found = difference(OPEN[name].program)
    assert found is None, found


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="known to go wrong")
@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    found = difference(WRONG[name])
    assert found is None, found


def test_a_fault_is_found_and_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were native subtraction the wrong way round, a program of few lines would show it."""
    monkeypatch.setattr(Arithmetic, "sub", lambda self, x, y: Arithmetic.neg(self, Arithmetic.add(self, x, y)))
    program = next(p for p in map(written, range(EACH)) if (difference(p) or "").startswith("native: call"))
    short = shrunk(program)
    assert len(short.body) + len(short.setup) <= 5


def test_a_program_runs_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(str(written(0)), "<program>", "exec"), {})
    assert capsys.readouterr().out.count("\n") >= 3
