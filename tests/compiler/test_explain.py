"""What a compiled function says of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

pytest.importorskip("llvmlite")


@pytest.fixture
def compiled() -> Any:
    def attend(x: Any, w: Any) -> Any:
        scores = x @ w
        return ad.softmax(scores, -1).cumsum(1)

    compiled = ad.compile(attend)
    compiled(ad.ones(90, 80), ad.ones(80, 70))
    return compiled


def test_every_step_says_kind_ops_results_lines_and_reason(compiled: Any) -> None:
    steps = compiled.kernels
    assert [s["kind"] for s in steps] == ["call", "kernel", "kernel", "kernel", "call"]
    assert steps[0]["ops"] == ["mm"]
    assert steps[0]["name"] == "mm"
    assert steps[0]["results"] == ["f32[90,70]"]
    assert steps[0]["reason"] == "mm is computed by NumPy"
    assert "max" in steps[1]["ops"]
    assert steps[1]["reason"] == "its operand is made by a call (mm)"
    assert all(len(s["lines"]) == 1 and s["lines"][0].startswith("test_explain.py:") for s in steps)
    assert all(s["name"].startswith("adjoint_") for s in steps if s["kind"] == "kernel")


def test_the_text_names_every_step_once(compiled: Any) -> None:
    text = compiled.explain()
    head, *rest = text.splitlines()
    count = len(compiled.graph.equations)
    assert head.startswith(f"attend: {count} equations in 3 kernels and 2 NumPy calls; arena of ")
    assert [line.split("]")[0] for line in rest if line.startswith("[")] == [f"[{i}" for i in range(5)]
    assert sum(line.startswith("      begins here: ") for line in rest) == 5
    assert "cumsum → f32[90,70]" in text


def test_before_the_first_call_there_is_nothing_to_say() -> None:
    with pytest.raises(RuntimeError, match="was not called yet"):
        ad.compile(lambda x: x).explain()


def test_the_same_program_says_the_same(compiled: Any) -> None:
    text = compiled.explain()
    compiled(ad.from_numpy(np.zeros((90, 80), np.float32)), ad.ones(80, 70))
    assert compiled.explain() == text
