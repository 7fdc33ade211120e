"""Where a program's values lie, and what is saved for backward, by which line, in bytes that add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.compiler.passes.memory_plan import ALIGNMENT
from adjoint.compiler.report.memory_report import ProgramMemory, report_memory
from adjoint.compiler.report.source_listing import format_listing
from adjoint.utils.checkpoint import checkpoint

pytest.importorskip("llvmlite")


def held(step: Any, *arguments: Any) -> ProgramMemory:
    compiled = ad.compile(step)
    compiled(*arguments)
    return report_memory(compiled._program())


@pytest.fixture(scope="module")
def program() -> Any:
    """That of a whole training step."""
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @ad.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step(ad.randn(6, 5), ad.tensor([0, 1, 2, 0, 1, 2]))
    return step._program()


@pytest.mark.claim("U15")
def test_bytes_add_up(program: Any) -> None:
    report = report_memory(program)
    assert report.saved_total == sum(v.nbytes for v in report.values if v.saved) > 0
    assert report.saved_total == sum(int(row[0].replace(",", "")) for row in report.saved_rows())
    assert len(report.saved) == sum(int(row[1]) for row in report.saved_rows())
    assert all(v.nbytes == int(np.prod(v.shape)) * v.dtype.itemsize for v in report.values)
    for kind in ("state", "argument", "result", "gradient", "constant", "number", "arena"):
        assert report.bytes_of(kind) == sum(v.nbytes for v in report.values if v.kind == kind)
    parameters = 4 * (5 * 4 + 4 + 4 * 3 + 3)
    assert report.bytes_of("gradient") == parameters
    assert report.bytes_of("state") == parameters
    assert report.bytes_of("argument") == 6 * 5 * 4 + 6 * 8
    assert report.bytes_of("result") == 4
    inside = [v for v in report.values if v.kind == "arena"]
    assert report.unshared == sum(-(-v.nbytes // ALIGNMENT) * ALIGNMENT for v in inside)


def test_what_is_alive_at_once_fits_into_the_arena_without_overlap(program: Any) -> None:
    inside = [v for v in report_memory(program).values if v.kind == "arena"]
    assert len(inside) == len(program.binding.plan.offsets) > 5
    for i, a in enumerate(inside):
        assert 0 <= a.offset <= program.binding.plan.size - a.nbytes
        assert a.first <= a.last <= len(program.fusion.order)
        for b in inside[:i]:
            together = a.first <= b.last and b.first <= a.last
            assert not together or a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset


def test_every_saved_value_has_its_line_and_backward_reads_it(program: Any) -> None:
    report = report_memory(program)
    for value in report.saved:
        assert value.origin.site.file == __file__
    kinds = {(v.op, v.shape) for v in report.saved}
    assert ("relu", (6, 4)) in kinds  # of the second layer's weight
    assert ("argument 0", (6, 5)) in kinds  # of the first's
    assert ("state 2.weight", (3, 4)) in kinds
    assert not {v.kind for v in report.saved} & {"gradient", "result", "constant", "number"}


def test_a_square_saves_its_operand_once() -> None:
    w = ad.ones(50, 3, requires_grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        hidden = x @ w
        loss = (hidden @ ad.ones(3, 2) + (hidden @ ad.ones(3, 2)).tanh()).exp().sum()
        loss.backward()
        return loss

    report = held(step, ad.full((40, 50), 0.01))
    made = [v for v in report.saved if v.kind == "arena"]
    assert sum(v.nbytes for v in made) == report.saved_total - report.saved_of_inputs
    assert all(v.shape in {(40, 2), (40, 3)} for v in made)


def test_a_step_without_backward_saves_nothing() -> None:
    report = held(lambda x: (x.exp().sum(0) * x).cumsum(0), ad.ones(9, 5))
    assert report.saved == ()
    assert "nothing is saved for backward" in str(report)
    assert "kept for backward()" not in str(report)


def test_what_a_backward_outside_needs_is_saved() -> None:
    layer = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    model = ad.compile(layer)
    x = ad.ones(6, 5)
    model(x).sum().backward()
    report = report_memory(model._program())
    (kept,) = [v for v in report.values if v.kind == "kept"]
    assert (kept.op, kept.shape, kept.nbytes, kept.saved) == ("tanh", (6, 4), 96, True)
    assert report.saved_total - report.saved_of_inputs == 96
    assert {v.op for v in report.saved} >= {"tanh", "argument 0", "state 2.weight"}
    assert report.backward.saved == ()
    assert str(report).endswith("\n\n" + str(report.backward))


def test_a_checkpoint_saves_less() -> None:
    blocks = [nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Sigmoid()) for _ in range(3)]
    model = nn.ModuleList(blocks)

    def saved(run: Any) -> int:
        def step(x: Any) -> Any:
            model.zero_grad()
            for block in blocks:
                x = run(block, x)
            loss = x.sum()
            loss.backward()
            return loss

        report = held(step, ad.ones(32, 8))
        assert all(v.origin is not None and not v.origin.rematerialized for v in report.saved)
        return report.saved_total - report.saved_of_inputs

    block = 32 * 8 * 4
    assert saved(lambda block, x: checkpoint(block, x, use_reentrant=False)) == 2 * block  # what went into the others
    assert saved(lambda block, x: block(x)) > 5 * block


def test_the_text_is_two_tables_with_the_eager_reports_words(program: Any) -> None:
    text = str(report_memory(program))
    assert text.startswith("step: arena of ")
    assert "\nsaved for backward:\nbytes  times  line" in text
    assert "bytes in " in text
    assert "which are there anyway" in text
    assert "\nin the arena:\n" in text
    assert all("test_memory_report.py:" in line for line in text.splitlines() if " f32" in line)
    assert text == repr(report_memory(program))


def test_the_listing_has_every_kernel_once_and_the_entry(program: Any) -> None:
    text = format_listing(program)
    for group in program.fusion.order:
        kernel = program.kernels.get(group)
        if kernel is not None:
            assert text.count(f"define void @{kernel.name}(") == 1
            assert f" kernel {kernel.name}\n; test_memory_report.py:" in text
    assert text.rstrip().endswith(program.source.rstrip())
    assert text.count("; [") == len(program.fusion.order)


def test_a_kernel_used_twice_is_listed_once() -> None:
    compiled = ad.compile(lambda x, y: (ad.special.bessel_j1(x).exp(), ad.special.bessel_j1(y).exp()))
    compiled(ad.ones(5000), ad.ones(5000))
    program = compiled._program()
    names = [kernel.name for kernel in program.kernels.values()]
    assert len(names) == 2
    assert len(set(names)) == 1
    text = format_listing(program)
    assert text.count(f"define void @{names[0]}(") == 1
    assert text.count("; the kernel of [") == 1


def test_a_notebook_gets_tables(program: Any) -> None:
    shown = report_memory(program)._repr_html_()
    assert shown.count("<table>") == 2
    assert "<script" not in shown
