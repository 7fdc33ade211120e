"""An op that refuses its values before a call outside of the step refuses them before that call, as eagerly."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn

pytest.importorskip("llvmlite")

TABLE = nn.Embedding(3, 4)
REFUSALS: dict[str, Callable[[Any], Any]] = {
    "an embedding": lambda i: TABLE(i).sum(0),
    "an index": lambda i: ad.arange(3.0)[i].sum(),
    "a gather": lambda i: ad.arange(3.0).gather(0, i).sum(),
    "a division of integers": lambda i: (ad.tensor([6, 6]) // (9 - i)).sum(),
    "a loss": lambda i: ad.nn.functional.cross_entropy(ad.ones(2, 3), i),
    "an inverse": lambda i: ad.linalg.inv(ad.eye(2) * (9 - i.max()).float()).sum(),
}
CALLS: dict[str, Callable[[Any], Any]] = {
    "random": lambda h: h * random.random(),
    "a choice": lambda h: h * random.choice([1.0, 2.0]),
    "print": lambda h: (print("seen"), h)[1],  # noqa: T201
    "print of a value": lambda h: (print(f"{h.sum().item():.3f}"), h)[1],  # noqa: T201
    "two": lambda h: (print("seen"), h * random.random())[1],  # noqa: T201
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("when", [0, 1, 3])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_refusal_comes_first(refusal: str, call: str, when: int) -> None:
    def function(x: Any, i: Any) -> Any:
        return CALLS[call](x + REFUSALS[refusal](i)).sum()

    def run(step: Callable[[Any, Any], Any]) -> list[Any]:
        random.seed(0)
        printed, seen = StringIO(), []
        with redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for k in range(6):
                try:
                    seen.append(pytest.approx(step(ad.ones(4), ad.tensor([0, 9 if k == when else 1])).item(), rel=1e-5))
                except (IndexError, RuntimeError, ZeroDivisionError) as error:
                    seen.append(type(error).__name__)
        return [*seen, printed.getvalue(), random.random()]

    assert run(ad.compile(function)) == run(function)
