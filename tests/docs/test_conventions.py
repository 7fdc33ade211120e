"""The table of conventions in docs/autograd.md: each line is evaluated, eagerly and compiled."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F

PAGE = Path(__file__).parents[2] / "docs" / "autograd.md"
NUMBERS: dict[str, Any] = {"nan": float("nan"), "inf": float("inf")}
needs_llvmlite = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="needs llvmlite")
WAYS = [pytest.param(False, id="eager"), pytest.param(True, marks=needs_llvmlite, id="compiled")]


def rows() -> list[tuple[str, ...]]:
    """Of each line of the table its code cells: the expression in x, x, and either value and gradient, or the error."""
    table = PAGE.read_text(encoding="utf-8").partition("| expression |")[2].partition("\n\n")[0]
    lines = [re.findall(r"`([^`]+)`", line) for line in table.splitlines()[2:]]
    return [tuple(cells) for cells in lines]


ROWS = rows()


def test_the_table_is_found() -> None:
    assert len(ROWS) > 40
    assert {len(row) for row in ROWS} == {3, 4}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0")
@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("row", [pytest.param(row, id=" ".join(row[:2])) for row in ROWS])
def test_line(row: tuple[str, ...], compiled: bool) -> None:
    expression, at, *expected = row
    run = ad.compile(value_and_gradient) if compiled else value_and_gradient
    x = ad.tensor(np.array(number(at), np.float32))
    if len(expected) == 1:
        with pytest.raises((RuntimeError, IndexError)) as info:
            run(expression, x)
        assert type(info.value).__name__ == expected[0]
        return
    for found, wanted in zip(run(expression, x), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), np.array(number(wanted), np.float32), rtol=1e-6)


def value_and_gradient(expression: str, x: Any) -> tuple[Any, Any]:
    """The expression, and the gradient of the sum of its elements."""
    x = x.detach().requires_grad_()
    names = compile(expression, "expression", "eval").co_names
    y = eval(expression, {**{n: getattr(ad, n) for n in names if hasattr(ad, n)}, **NUMBERS, "F": F, "x": x})
    (g,) = ad.autograd.grad(y.sum(), x)
    return y.detach(), g


def number(text: str) -> Any:
    return eval(text, dict(NUMBERS))


@pytest.mark.claim("0.W8")
def test_the_page_shows_the_walk_as_it_runs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = [line for line in page.splitlines() if line.startswith("Step(")]
    nodes = [line.removeprefix("Step(").partition(",")[0] for line in shown]
    assert nodes == ["SumBackward0", "AddBackward0", "MulBackward0", "MulBackward0", "ExpBackward0"]
    assert "ExpBackward0: 2" in shown[0]
    assert "ExpBackward0: 1" in shown[3]
    assert "ExpBackward0: 0" in shown[4]
