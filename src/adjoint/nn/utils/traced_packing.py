"""Packing in a compiled step, which does so with other lengths in each call: rows are found between two programs."""

from __future__ import annotations

import numpy as np

from adjoint.core.runtime.mode import call_on_values, mode, nondefault
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand
from adjoint.functions.creation.creation import arange, full
from adjoint.ops.elementwise import select
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement

TOO_LONG = "Expected lengths within the times of the input, of which there are {size}, but one has a time {}"


def has_traced_values(x: object) -> bool:
    """Return whether the values of a tensor are others in each call of a compiled step."""
    is_traced = bool(nondefault.count) and mode.interpreter is not None
    return isinstance(x, Tensor) and is_traced and type(x.array) is not np.ndarray


def pack_in_call(
    input: Tensor, lengths: Tensor, batch_first: bool, enforce_sorted: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the packed rows of a padded batch, how many each time has, and the order of the sequences."""
    order = None
    if not enforce_sorted:
        order = (-lengths.detach()).argsort(stable=True)
        lengths, input = lengths.index_select(0, order), input.index_select(0 if batch_first else 1, order)
    steps, batch = input.array.shape[1::-1] if batch_first else input.array.shape[:2]
    sizes, times, sequences = call_on_values(_find_rows, lengths.detach())
    indexing.check_range(times, steps, TOO_LONG, low=0, error=RuntimeError)
    at = sequences * steps + times if batch_first else times * batch + sequences
    rows = movement.reshape(input, shape=(steps * batch, *input.array.shape[2:]))
    return rows.index_select(0, at), sizes, order


def pad_in_call(
    data: Tensor, sizes: Tensor, batch: int, padding_value: float, total_length: int | None
) -> tuple[Tensor, Tensor]:
    """Return packed rows as a padded batch (T, B, …), and the lengths, both in the order of the packed sequences."""
    steps = sizes.array.shape[0]
    starts = sizes.cumsum(0) - sizes
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps!r}"
            )
        times = arange(total_length)
        last = times.clamp(max=steps - 1)
        sizes, starts = sizes.index_select(0, last) * (times < steps), starts.index_select(0, last)
        steps = total_length
    columns = arange(batch)
    there = columns < sizes.unsqueeze(1)  # (T, B)
    at: Operand = select.where(there, starts.unsqueeze(1) + columns, 0)
    rest = data.array.shape[1:]
    rows = data.index_select(0, movement.reshape(at, shape=(steps * batch,)))
    held = movement.reshape(there, shape=(steps, batch, *(1 for _ in rest)))
    filler = full((), padding_value, dtype=data.dtype)
    padded = select.where(held, movement.reshape(rows, shape=(steps, batch, *rest)), filler)
    return padded, there.sum(0)


def _find_rows(lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return how many rows each time has, and the time and the sequence of each, from lengths that do not grow."""
    known = lengths.numpy_view("pack_padded_sequence()")
    if (known < 1).any():
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if (known[1:] > known[:-1]).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement"
        )
    there = np.arange(known[0])[:, None] < known
    times, sequences = np.nonzero(there)
    return wrap(there.sum(1)), wrap(times), wrap(sequences)
