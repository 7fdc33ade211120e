"""Causes of samples that a loader cannot put together: the line that gave one a part of another kind."""

from __future__ import annotations

import re
from types import TracebackType

from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.contexts import ITEM, Key, SourceStep
from adjoint.diagnosis.causes.searches.kind_traces import trace_kind
from adjoint.diagnosis.failure import Failure

ODD_KIND = re.compile(r"numbers, dicts or lists; found <class '(?:[\w.]+\.)?(\w+)'>")


def find_collated_samples(failure: Failure) -> list[Operand] | None:
    """Return the samples of the batch, from the outermost call that puts them together."""
    trace: TracebackType | None = failure.error.__traceback__
    while trace is not None:
        batch = trace.tb_frame.f_locals.get("batch")
        if trace.tb_frame.f_code.co_name == "default_collate" and isinstance(batch, (list, tuple)):
            return [*batch]
        trace = trace.tb_next
    return None


def find_item_path(sample: Operand, kind: str) -> tuple[Key, ...] | None:
    """Return the keys, outermost first, that lead to a part of a sample of that class; None where it has none.

    In `{"image": x, "boxes": [None]}` it is `("boxes", 0)` for `NoneType`.
    """
    if type(sample).__name__ == kind.rpartition(".")[2]:
        return ()
    parts = sample.items() if type(sample) is dict else enumerate(sample) if type(sample) in (list, tuple) else ()
    for key, part in parts:
        inner = find_item_path(part, kind) if isinstance(key, (int, str)) else None
        if inner is not None:
            return (key, *inner)
    return None


def find_sample_cause(failure: Failure, step: SourceStep) -> tuple[str, SourceStep] | None:
    """Return the line that gave a part of a sample which is of no kind that makes a batch."""
    match = ODD_KIND.search(failure.message)
    for sample in find_collated_samples(failure) or () if match is not None else ():
        path = None if match is None else find_item_path(sample, match[1])
        if match is not None and path is not None:
            return _trace_part(step, path, match[1])
    return None


def _trace_part(step: SourceStep, path: tuple[Key, ...], kind: str) -> tuple[str, SourceStep] | None:
    """Return the words for where a part of the samples of a loop comes from, and the line."""
    first = step.at(step.node, (*path[::-1], ITEM))
    steps = trace_kind(first, lambda value: type(value).__name__ == kind)
    if len(steps) == 1:
        return None
    part = "".join(f"[{each!r}]" for each in path)
    what = "None" if kind == "NoneType" else f"a {kind}"
    return f"sample{part} is {what}, from {steps[-1].line()}", steps[-1]
