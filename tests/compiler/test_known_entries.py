"""Programs that take turns: in strict turn each is called at once, in any other order by trying."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("llvmlite")

import adjoint as ad
from adjoint import nn, optim
from adjoint.compiler.known_entries import HANDOVERS_BETWEEN_TRIALS, MIN_HANDOVERS, Alternation

SETTLED = 3 * MIN_HANDOVERS  # turns of each


def note_runs(step: Any) -> list[str]:
    """Take note of each program that is run, or tried."""
    tried = []
    for signature in step._programs.values():
        for entry in signature.entries:
            name = str([v.shape for v in entry.program.graph.inputs][:1])
            run = entry.run
            entry.run = lambda *given, run=run, name=name: (tried.append(name), run(*given))[1]
    return tried


def test_programs_in_strict_turn_are_tried_no_other_first() -> None:
    step = ad.compile(lambda x: (x * 2).sum(), dynamic=False)
    three, four = ad.ones(3), ad.ones(4)
    for _ in range(SETTLED):
        assert (step(three).item(), step(four).item()) == (6.0, 8.0)
    tried = note_runs(step)
    for _ in range(5):
        assert (step(three).item(), step(four).item()) == (6.0, 8.0)
    assert tried == ["[(3,)]", "[(4,)]"] * 5


def test_any_order_gives_what_eager_code_gives() -> None:
    def make() -> tuple[Any, Any]:
        ad.manual_seed(0)
        net = nn.Linear(3, 2)
        optimizer = optim.Adam(net.parameters(), lr=0.01)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return {"loss": loss, "rows": [len(x)]} if len(x) == 4 else loss

        return net, step

    chance = random.Random(0)
    inputs = [ad.linspace(0.0, 1.0, 3 * n).reshape(n, 3) for n in (3, 4, 5)]
    order = [0, 1] * SETTLED + [0, 0, 1, 1] * SETTLED + [0, 1, 2] * SETTLED + [chance.randrange(3) for _ in range(90)]
    (eager_net, eager), (net, step) = make(), make()
    compiled = ad.compile(step)
    for i in order:
        expected, got = eager(inputs[i]), compiled(inputs[i])
        if i == 1:
            assert got["rows"] == [4]
            expected, got = expected["loss"], got["loss"]
        assert got.item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-6)
    for ours, theirs in zip(net.parameters(), eager_net.parameters(), strict=True):
        assert ad.allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_the_program_that_ran_last_is_shown() -> None:
    step = ad.compile(lambda x: x + 1, dynamic=False)
    for _ in range(SETTLED):
        for size in 3, 4:
            step(ad.ones(size))
            assert step.graph.inputs[0].shape == (size,)
    assert isinstance(step._latest, Alternation)
    assert "f32[4]" in str(step.explain())


def test_turns_that_were_not_strict_are_tried_again_only_after_many() -> None:
    step = ad.compile(lambda x: x + 1)
    three, four = ad.ones(3), ad.ones(4)
    for _ in range(SETTLED):
        step(three), step(four)
    assert isinstance(step._latest, Alternation)
    step(four)
    for i in range(HANDOVERS_BETWEEN_TRIALS // 2):
        step(three), step(four)
        assert not isinstance(step._latest, Alternation), i
    for _ in range(HANDOVERS_BETWEEN_TRIALS):
        step(three), step(four)
    assert isinstance(step._latest, Alternation)
