"""The graph after each pass: recorded in a copy of the process, where the step is traced once more."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.compiler.log import pass_observers
from adjoint.compiler.report.pass_stages import CHANGED, PassStages, record_stages

pytest.importorskip("llvmlite")


def stages_of(step: Any) -> PassStages:
    return record_stages(step._retrace, step._program())


def make_step(optimizer_type: Any = optim.SGD) -> Any:
    model = nn.Sequential(nn.Linear(4, 5), nn.Dropout(0.2), nn.BatchNorm1d(5), nn.Linear(5, 2))
    optimizer = optimizer_type(model.parameters(), lr=0.1)

    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = model(x * 1.0).square().sum()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adam, optim.RMSprop, optim.Adagrad, optim.NAdam])
@pytest.mark.parametrize("calls", [1, 5])
def test_a_training_step_has_its_stages_after_any_number_of_calls(optimizer: Any, calls: int) -> None:
    step, x = make_step(optimizer), ad.randn(6, 4)
    for _ in range(calls):
        step(x)
    stages = stages_of(step)
    assert stages.note.startswith("Passes that changed nothing: ")
    titles = [graph.title for graph in stages.forward]
    assert titles[:2] == ["as traced", "after apply_rules"]
    assert len(stages.forward[0].nodes) > len(stages.forward[1].nodes)
    assert stages.backward == ()


def test_nothing_changes_here_and_nothing_is_observed_afterwards() -> None:
    step, x = make_step(), ad.randn(6, 4)
    step(x)
    state, program = ad.get_rng_state().tolist(), step._program()
    stages_of(step)
    assert (ad.get_rng_state().tolist(), step._program(), step.compilations, pass_observers) == (state, program, 1, [])


def test_a_step_whose_backward_is_outside_has_stages_of_both_halves() -> None:
    model = ad.compile(nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3)))
    x = ad.randn(5, 4)
    model(x).sum().backward()
    stages = stages_of(model)
    assert CHANGED not in stages.note, "the line from which it is traced again is that of the first call"
    assert stages.forward[0].title == "as traced"
    assert [graph.title for graph in stages.backward][:1] == ["backward half, cut off"]
    files = {site.file for graph in (*stages.forward, *stages.backward) for node in graph.nodes for site in node.sites}
    assert files == {__file__}
    lines = {site.line for graph in stages.forward for node in graph.nodes for site in node.sites}
    assert lines == {test_a_step_whose_backward_is_outside_has_stages_of_both_halves.__code__.co_firstlineno + 3}


def test_a_long_loop_is_shown_by_the_few_turns_by_which_it_is_planned() -> None:
    cell = nn.Linear(3, 3)

    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        cell.zero_grad()
        for _ in range(80):
            x = ad.tanh(cell(x))
        loss = x.sum()
        loss.backward()
        return loss

    x = ad.randn(2, 3)
    step(x)
    stages = stages_of(step)
    assert "planned by a few of its turns" in stages.note
    assert stages.forward[0].title == "fewer turns, as traced"
    assert len(stages.forward[0].nodes) < len(step.graph.equations)
    assert len({graph.title for graph in stages.forward}) == len(stages.forward)


def test_arguments_that_are_gone_are_made_up() -> None:
    step = make_step()
    step(ad.randn(6, 4))
    assert stages_of(step).forward[0].title == "as traced"


def test_a_step_that_has_changed_says_so() -> None:
    scale = [1.0]
    step = ad.compile(lambda x: (x * scale[0]).exp() if scale[0] < 2 else x.log())
    x = ad.ones(3)
    step(x)
    scale[0] = 3.0
    stages = stages_of(step)
    assert (stages.forward, CHANGED in stages.note) == ((), True)
