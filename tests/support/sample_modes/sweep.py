"""Runs of all samples of a mode, where every name counts: a function that is missing has all its samples wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from tests.support.converted import Other
from tests.support.sample_modes.modes import MODES, has_counterpart, samples_of
from tests.support.sample_modes.reasons import reason_of
from tests.support.torch_samples import TABLE, label

# those that PyTorch has as torch.ops.aten alone are no public functions; of one the table has a function around it
INTERNAL = torch._ops.OpOverloadPacket | torch._ops.OpOverload
PUBLIC = [op for op in TABLE if not isinstance(op.op, INTERNAL) and op.name != "max_pool2d_with_indices_backward"]


class Outcome(NamedTuple):
    """How a function's samples of one element type came out; `reason` says why they may differ."""

    mode: str
    name: str
    kind: str
    right: int
    wrong: int
    first: str  # what the first wrong one says
    reason: str | None


def run(mode: str, only: str = "", limit: int | None = None) -> Iterator[Outcome]:
    """Check all functions of PyTorch's table whose name matches `only`; at most `limit` samples of a type."""
    for op in PUBLIC:
        if re.search(only, label(op)):
            yield from check_function(mode, op, limit)


def check_function(mode: str, op: Any, limit: int | None = None) -> list[Outcome]:
    """Check one function in one mode."""
    counts: dict[str, list[Any]] = {}
    there = has_counterpart(op)
    given = samples_of(MODES[mode], op, limit)
    while True:
        try:
            kind, sample = next(given)
        except StopIteration:
            break
        except Exception:  # noqa: BLE001  PyTorch cannot make these samples here
            break
        count = counts.setdefault(kind, [0, 0, ""])
        try:
            if not there:
                raise AttributeError("missing")
            MODES[mode].check(op, sample)
        except Other:
            continue
        except Exception as error:  # noqa: BLE001  whatever is wrong is counted
            count[1] += 1
            count[2] = count[2] or f"{type(error).__name__}: {_first_words(str(error))}"
        else:
            count[0] += 1
    return [Outcome(mode, label(op), kind, *count, reason_of(mode, label(op), kind)) for kind, count in counts.items()]


def _first_words(text: str) -> str:
    return " ".join(text.split())[:300]


def summary(outcomes: Iterable[Outcome]) -> str:
    """The table: of each mode the samples, those that are right, and those that differ for a reason."""
    lines = ["| mode | samples | right | % | differ for a reason | wrong |", "| --- | --- | --- | --- | --- | --- |"]
    by_mode: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_mode.setdefault(outcome.mode, []).append(outcome)
    for mode, found in by_mode.items():
        right = sum(o.right for o in found)
        excused = sum(o.wrong for o in found if o.reason)
        wrong = sum(o.wrong for o in found if not o.reason)
        total = right + excused + wrong
        share = 100 * right / (total or 1)
        lines.append(f"| {MODES[mode].title} | {total} | {right} | {share:.2f} | {excused} | {wrong} |")
    return "\n".join(lines)
