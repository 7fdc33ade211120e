"""Metrics that a region takes in."""

from __future__ import annotations

import ast
import textwrap

import pytest
from tests.support.training_regions import STEP, split

from adjoint.compiler.scripts.region_finder import find_training_regions


def test_metrics_are_part_of_the_region() -> None:
    inside, behind = split(
        f"{STEP}\ntotal += loss.item()\n_, found = out.max(1)\nright += (found == y).sum().item()\nprint(right)"
    )
    assert inside[4:] == ["_, found = out.max(1)", "__adjoint_metric_1__ = (found == y).sum()"]
    assert behind == ["total += loss.item()", "right += __adjoint_metric_1__.item()", "print(right)"]


def test_metric_that_is_added_up() -> None:
    inside, behind = split(f"{STEP}\nright += torch.sum(out.argmax(1) == y.data)\nseen += len(x)")
    assert inside[4:] == ["__adjoint_metric_0__ = torch.sum(out.argmax(1) == y.data)"]
    assert behind == ["right += __adjoint_metric_0__", "seen += len(x)"]


def test_metrics_of_a_call_and_of_what_is_returned() -> None:
    inside, behind = split(f"{STEP}\nmeter.update((out.argmax(1) == y).float().mean().item(), len(x))\nz = out.sum()")
    assert inside[4:] == ["__adjoint_metric_0__ = (out.argmax(1) == y).float().mean()"]
    assert behind == ["meter.update(__adjoint_metric_0__.item(), len(x))", "z = out.sum()"]  # what update() may change
    source = f"def step(x, y):\n{textwrap.indent(STEP, '    ')}\n    return loss.item(), (out == y).sum().item()"
    (region,) = find_training_regions(ast.parse(source))
    assert ast.unparse(region.statements[-1]) == "__adjoint_metric_0__ = (out == y).sum()"


@pytest.mark.parametrize(
    "statement",
    [
        "total += loss.item()",
        "image = draw(out.max())",
        "best = loss.max().item() if loss else 0",
        "out.clamp_(0)",
        "w = other.sum()",
        "right = [o.sum().item() for o in out]",
    ],
)
def test_what_computes_no_metric_stays_behind(statement: str) -> None:
    assert split(f"{STEP}\n{statement}") == (STEP.split("\n"), [statement])


def test_what_reads_a_number_of_the_program_stays_behind_it() -> None:
    inside, behind = split(f"{STEP}\nscale = loss.item()\nm = (out * scale).sum()")
    assert (inside[4:], behind) == ([], ["scale = loss.item()", "m = (out * scale).sum()"])


def test_metrics_whose_names_another_function_sees_stay_as_they_are() -> None:
    lines = ["found = out.max(1)[1]", "right += (found == y).sum().item()"]
    body = textwrap.indent("\n".join([STEP, *lines]), "        ")
    source = f"def train(batches):\n    show = lambda: found\n    for x, y in batches:\n{body}"
    (region,) = find_training_regions(ast.parse(source))
    assert [*map(ast.unparse, region.place.block[region.stop :])] == lines
