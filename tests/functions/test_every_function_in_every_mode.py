"""Every function of PyTorch's table in every mode of use; a slice of the samples in each run, all of them at night."""

from __future__ import annotations

import re
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from tests.support.sample_modes.modes import MODES  # noqa: E402  what PyTorch's samples need is there
from tests.support.sample_modes.reasons import REASONS  # noqa: E402
from tests.support.sample_modes.sweep import PUBLIC, Outcome, check_function, run, summary  # noqa: E402
from tests.support.torch_samples import TABLE, label  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # by PyTorch's own samples
SLICE = [op for i, op in enumerate(PUBLIC) if i % 40 == 5]
OPS = [pytest.param(op, id=label(op)) for op in SLICE]


def faults(outcomes: Any) -> list[str]:
    return [f"{o.mode} {o.name} {o.kind}: {o.wrong} · {o.first}" for o in outcomes if o.wrong and not o.reason]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", OPS)
def test_first_samples_of_a_slice(mode: str, op: Any) -> None:
    assert faults(check_function(mode, op, 2)) == []


@pytest.mark.nightly
@pytest.mark.parametrize("mode", MODES)
def test_all_samples_of_all_functions(mode: str) -> None:
    outcomes = list(run(mode))
    assert faults(outcomes) == [], summary(outcomes)


def test_a_missing_function_has_all_its_samples_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    op = next(op for op in TABLE if label(op) == "sin")
    monkeypatch.setattr("tests.support.sample_modes.sweep.has_counterpart", lambda op: False)
    outcome, *_ = check_function("eager", op)
    assert outcome.right == 0
    assert outcome.wrong > 0
    assert "missing" in outcome.first


def test_a_wrong_result_is_counted_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    op = next(op for op in TABLE if label(op) == "sin")
    monkeypatch.setattr("adjoint.sin", lambda x: x.cos())
    outcomes = check_function("eager", op, 1)
    assert all(o.wrong == 1 and "mismatch" in o.first.lower() for o in outcomes)
    assert "| 0.00 |" in summary(outcomes)


def test_a_reason_is_counted_apart() -> None:
    table = summary(
        [Outcome("vmap", "f", "float64", 3, 1, "differs", "why"), Outcome("vmap", "g", "", 4, 2, "no", None)]
    )
    assert table.endswith("| vmap | 10 | 7 | 70.00 | 1 | 2 |")


def test_every_reason_is_of_a_mode_and_of_a_function() -> None:
    names = {label(op) for op in TABLE}
    for reason in REASONS:
        assert any(re.fullmatch(reason.modes, mode) for mode in MODES), reason
        assert any(re.fullmatch(reason.names, name) for name in names), reason
        assert len(reason.why.split()) > 3
