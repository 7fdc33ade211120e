"""Regions that begin ahead of their forward pass."""

from __future__ import annotations

import ast

import pytest

from adjoint.compiler.scripts.region_finder import find_training_regions
from adjoint.compiler.scripts.region_start import widen_start

STEP = ["loss = f(model(x), y)", "loss.backward()", "opt.step()"]


def find_first(lines: list[str]) -> str:
    """The statement from which a step is compiled whose forward pass begins with that of STEP."""
    (region,) = find_training_regions(ast.parse("\n".join([*lines, *STEP])))
    return ast.unparse(region.place.block[widen_start(region, len(lines))])


@pytest.mark.parametrize(
    "between",
    [
        [],
        ["x = x.to(device)"],
        ["h = detach(h)", "n = x.size(0)"],
        ["label = torch.full((n,), 1.0)", "model.zero_grad()"],
    ],
)
def test_step_begins_with_zero_grad(between: list[str]) -> None:
    assert find_first(["x, y = fetch()", "opt.zero_grad()", *between]) == "opt.zero_grad()"


@pytest.mark.parametrize("between", ["x, y = fetch()", "batch = next(batches)", "print(x)", "x = [g(i) for i in x]"])
def test_step_begins_behind_what_fetches_a_batch(between: str) -> None:
    assert find_first(["opt.zero_grad()", between]) == STEP[0]
    assert find_first(["x = x.to(device)"]) == STEP[0]
