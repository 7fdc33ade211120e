"""A training region that raises leaves what the program would have left without it."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler.scripts.compile_all import compile_source
from adjoint.compiler.scripts.region_rewriter import REGIONS

SETUP = """
import adjoint as ad
from adjoint import nn, optim
import adjoint.nn.functional as F

ad.manual_seed(0)
model = nn.Sequential(nn.Embedding(9, 4), nn.BatchNorm1d(4), nn.Dropout(0.2), nn.Linear(4, 3))
opt = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
batches = [(ad.randint(0, 9, (5,)), ad.randint(0, 3, (5,))) for _ in range(9)]
batches[5] = ad.full((5,), BAD_WORD), ad.full((5,), BAD_LABEL)
losses, seen, errors = [], [], []

class Meter:
    sum = count = 0

    def update(self, value, n=1):
        self.sum, self.count = self.sum + value * n, self.count + n

meter = Meter()

def check(loss):
    if loss != loss:
        raise ValueError("the loss is not a number")
"""
STEP = """
    out = model(x)
    seen.append(out.detach().sum())
    loss = F.cross_entropy(out, y) * scale
    losses.append(loss.item())
    opt.zero_grad()
    meter.update(out.sum().item(), n=len(x))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    check(loss)
    opt.step()
    losses.append(loss.item() * 2)
"""
PROGRAMS = {
    "a function": f"""
        def step(x, y, scale):
            {textwrap.indent(textwrap.dedent(STEP), " " * 12).strip()}
        for i, (x, y) in enumerate(batches):
            try:
                step(x, y, float('nan') if i in NOT_NUMBERS else 1.0)
            except (ValueError, IndexError, RuntimeError) as error:
                errors.append(str(error))
    """,
    "the module": f"""
        for i, (x, y) in enumerate(batches):
            scale = float('nan') if i in NOT_NUMBERS else 1.0
            try:
                {textwrap.indent(textwrap.dedent(STEP), " " * 16).strip()}
            except (ValueError, IndexError, RuntimeError) as error:
                errors.append(str(error))
    """,
    "a method": f"""
        class Trainer:
            steps = 0
            def step(self, x, y, scale):
                self.steps += 1
                {textwrap.indent(textwrap.dedent(STEP), " " * 16).strip()}
        trainer = Trainer()
        for i, (x, y) in enumerate(batches):
            try:
                trainer.step(x, y, float('nan') if i in NOT_NUMBERS else 1.0)
            except (ValueError, IndexError, RuntimeError) as error:
                errors.append(str(error))
        losses.append(trainer.steps)
    """,
    "a `with` block": f"""
        def step(x, y, scale):
            with ad.enable_grad():
                {textwrap.indent(textwrap.dedent(STEP), " " * 16).strip()}
        for i, (x, y) in enumerate(batches):
            try:
                step(x, y, float('nan') if i in NOT_NUMBERS else 1.0)
            except (ValueError, IndexError, RuntimeError) as error:
                errors.append(str(error))
    """,
}
FAULTS = {  # words, labels, batches whose loss is not a number
    "a word that the embedding has not": (9, 0, ()),
    "a label that is no class": (0, 3, ()),
    "a loss that is not a number": (0, 0, (4, 6)),
    "one while the region is observed": (0, 0, (0, 1)),
}


def run(source: str, *, is_compiled: bool) -> dict[str, Any]:
    """The names that a program leaves."""
    names: dict[str, Any] = {"__name__": "program"}
    code = compile_source(source.encode(), "program.py", names) if is_compiled else source
    exec(code, names)
    return names


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_error_leaves_what_it_leaves_eagerly(program: str, fault: str) -> None:
    word, label, not_numbers = FAULTS[fault]
    source = SETUP.replace("BAD_WORD", str(word)).replace("BAD_LABEL", str(label)) + textwrap.dedent(PROGRAMS[program])
    source = source.replace("NOT_NUMBERS", str(not_numbers)) + "\nrest = ad.rand(3)\n"
    eager, compiled = run(source, is_compiled=False), run(source, is_compiled=True)
    assert compiled["errors"] == eager["errors"]
    assert len(eager["errors"]) == (len(not_numbers) or 1)
    assert compiled["losses"] == pytest.approx(eager["losses"], rel=1e-5, nan_ok=True)
    seen, expected_seen = ([value.item() for value in names["seen"]] for names in (compiled, eager))
    assert seen == pytest.approx(expected_seen, rel=1e-4, abs=1e-5)
    assert compiled["meter"].sum == pytest.approx(eager["meter"].sum, rel=1e-4)
    assert compiled["meter"].count == eager["meter"].count
    assert ad.equal(compiled["rest"], eager["rest"])  # as many numbers were drawn
    for one, expected in zip(compiled["model"].parameters(), eager["model"].parameters(), strict=True):
        assert ad.allclose(one, expected, rtol=1e-4, atol=1e-5)
        assert ad.allclose(one.grad, expected.grad, rtol=1e-4, atol=1e-5, equal_nan=True)
    for one, expected in zip(compiled["model"].buffers(), eager["model"].buffers(), strict=True):
        assert ad.allclose(one, expected, rtol=1e-4, atol=1e-5)
    assert any(region.times.compiled_calls for region in compiled[REGIONS])


def test_an_object_that_sets_the_learning_rate_does_so_before_the_step() -> None:
    program = SETUP.replace("BAD_WORD", "0").replace("BAD_LABEL", "0") + textwrap.dedent("""
        class Tuner:
            def __init__(self, optimizer):
                self.optimizer = optimizer
            def update(self, value):
                self.optimizer.param_groups[0]["lr"] = 0.01 * value

        tuner = Tuner(opt)
        for x, y in batches:
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            tuner.update(loss.item())
            loss.backward()
            opt.step()
            losses.append(loss.item())
    """)
    eager, compiled = run(program, is_compiled=False), run(program, is_compiled=True)
    assert compiled["losses"] == pytest.approx(eager["losses"], rel=1e-5)
    assert "eager: a method of tuner, which holds what is trained" in compiled[REGIONS][0].describe()
