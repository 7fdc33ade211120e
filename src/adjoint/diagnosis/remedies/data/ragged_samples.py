"""Remedies for samples of a loader that make no batch, since they have other lengths: a `collate_fn` that pads them."""

from __future__ import annotations

import ast
import re
from types import TracebackType

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.remedies.registry import at, remedy, shape_of
from adjoint.diagnosis.source_expressions import text_of

MAX_PARTS = 4


@remedy(r"equal size, but got (\[[\d, ]*\]) at entry (\d+) and (\[[\d, ]*\]) at entry (\d+)")
def pad_samples(failure: Failure, match: re.Match[str]) -> str | None:
    """Samples whose first dimension differs: their sequences are padded, all else is put together as before."""
    first, other = shape_of(match[1]), shape_of(match[3])
    samples = _find_samples(failure)
    is_ragged = len(first) == len(other) > 0 and first[1:] == other[1:]
    owner = failure.locals.get("loader", failure.locals.get("self"))
    dataset = failure.locals.get("dataset", getattr(owner, "dataset", None))
    if (
        hasattr(dataset, "datasets")
        or samples is None
        or not is_ragged
        or (len(first) == 3 and {first[0], other[0]} <= {1, 3, 4})
        or 0 in other
    ):
        return None
    batch = _write_batch(samples)
    if batch is None:
        return None
    loader = next((each for each in failure.operands if type(each.value).__name__ == "DataLoader"), None)
    made = None if loader is None or loader.origin is None else loader.origin.value
    call = made or (failure.node.iter if isinstance(failure.node, ast.For) else failure.node)
    name = text_of(call.func) if isinstance(call, ast.Call) and "DataLoader" in text_of(call.func) else "DataLoader"
    told = f"samples {match[2]} and {match[4]} of a batch have other lengths, {match[1]} and {match[3]}"
    return f"{told}: {name}(…, collate_fn=lambda batch: {batch}){at(loader)} pads them to the longest"


def _find_samples(failure: Failure) -> list[Operand] | None:
    """Return the samples of the batch, from the outermost call that puts them together."""
    trace: TracebackType | None = failure.error.__traceback__
    while trace is not None:
        names = trace.tb_frame.f_locals
        if trace.tb_frame.f_code.co_name == "default_collate" and isinstance(names.get("batch"), list):
            samples: list[Operand] = names["batch"]
            return samples
        trace = trace.tb_next
    return None


def _write_batch(samples: list[Operand]) -> str | None:
    """Return the expression that makes a batch of samples which are tensors, or tuples of tensors and numbers."""
    if all(isinstance(each, Tensor) for each in samples):
        return "nn.utils.rnn.pad_sequence(batch, batch_first=True)"
    counts = {len(each) if isinstance(each, tuple) else 0 for each in samples}
    if len(counts) != 1 or not 0 < (count := max(counts)) <= MAX_PARTS:
        return None
    made = []
    for place in range(count):
        parts, text = [each[place] for each in samples], f"[s[{place}] for s in batch]"
        if all(isinstance(part, Tensor) for part in parts):
            is_even = len({tuple(part.shape) for part in parts}) == 1
            made.append(f"torch.stack({text})" if is_even else f"nn.utils.rnn.pad_sequence({text}, batch_first=True)")
        else:
            made.append(f"torch.tensor({text})" if all(isinstance(part, (int, float)) for part in parts) else text)
    return f"({', '.join(made)})"
