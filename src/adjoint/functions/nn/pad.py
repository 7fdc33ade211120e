"""`pad`: frames of one value, or made of the tensor itself: mirrored, repeated at the edges, joined into a ring."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from adjoint.core.dtype.dtype_info import check_range
from adjoint.core.op.recorder import is_evaluated_alone, wrap_unrecorded
from adjoint.core.tensor.size import has_symbolic
from adjoint.core.tensor.tensor import Tensor, constant
from adjoint.core.typing import Operand
from adjoint.functions.api.channels_last import preserve_channels_last
from adjoint.functions.api.publish import rename_node
from adjoint.ops.creation import count_from
from adjoint.ops.movement import movement

__all__ = ["pad"]

PAD_NODE_PREFIXES = {"reflect": "ReflectionPad", "replicate": "ReplicationPad", "circular": "Circular"}


@preserve_channels_last
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: Operand = None) -> Tensor:
    """Add a border: `pad` lists (before, after) from the last dimension forwards; negative widths cut.

    `mode`: "constant" frames with `value`; "reflect", "replicate" and "circular" frame the last one to three dimensions
    with the tensor itself. Raises RuntimeError for more pairs than dimensions and for frames too wide.
    """
    if mode != "constant":
        if value is not None and value != 0:
            raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
        return pad_dims(input, pad, mode)
    check_range(value, input.array.dtype)
    if value is None or type(value) is float or type(value) is int:
        widths = _plain_widths(tuple(pad), len(input.array.shape))
        if widths is not None:
            return movement.pad(input, widths=widths, value=float(value or 0.0))
    if len(pad) % 2 or len(pad) // 2 > input.ndim:
        raise RuntimeError("Padding length must be divisible by 2 and at most twice the input's number of dimensions")
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)][::-1]
    widths = ((0, 0),) * (input.ndim - len(pairs)) + tuple(pairs)
    if any(a < 0 or b < 0 for a, b in widths):
        bounds = tuple((max(-a, 0), n - max(-b, 0), 1) for n, (a, b) in zip(input.array.shape, widths, strict=True))
        input = movement.slice(input, bounds=bounds)
    number = value if isinstance(value, complex) else float(value or 0.0)
    return movement.pad(input, widths=tuple((max(a, 0), max(b, 0)) for a, b in widths), value=number)


def _plain_widths(pad: tuple[int, ...], rank: int) -> tuple[tuple[int, int], ...] | None:
    """Return the widths of a border for each dimension; None for one that cuts, that does not fit, or of symbols."""
    for n in pad:
        if type(n) is not int or n < 0:
            return None
    return _pair_widths(pad, rank) if len(pad) % 2 == 0 and len(pad) // 2 <= rank else None


@lru_cache(256)
def _pair_widths(pad: tuple[int, ...], rank: int) -> tuple[tuple[int, int], ...]:
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)][::-1]
    return ((0, 0),) * (rank - len(pairs)) + tuple(pairs)


def pad_dims(input: Tensor, pad: Sequence[int], mode: str) -> Tensor:
    """Add a border to the last dimensions: `pad` lists (before, after) from the last dimension forwards.

    Raises NotImplementedError for other modes and numbers of dimensions, RuntimeError for frames too wide for theirs.
    """
    if mode not in PAD_NODE_PREFIXES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    rank = len(pad) // 2
    if len(pad) % 2 or not 1 <= rank <= 3 or input.ndim not in (rank + 1, rank + 2):
        raise NotImplementedError(
            "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now, and the frame must be of the "
            f"last 1, 2 or 3 dimensions: given {len(pad)} widths for {input.ndim} dimensions"
        )
    shape = input.array.shape
    lead = input.ndim - rank
    if not all(shape[input.ndim - rank - 1 :]) and mode != "circular":
        raise RuntimeError(
            f"Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(shape)}"
        )
    out: Operand = input
    alone = input.array if type(input.array) is np.ndarray and is_evaluated_alone(input) else None
    for i in range(rank):
        d = lead + i
        before, after = pad[2 * (rank - 1 - i)], pad[2 * (rank - 1 - i) + 1]
        if (before or after) and alone is not None:
            alone = alone.take(_known_positions(mode, shape, d, before, after), axis=d)
        elif before or after:
            at = _source_positions(mode, shape, d, before, after)
            out = out.index_select(d, at if isinstance(at, Tensor) else constant(at))
    if alone is not None and alone is not input.array:
        return wrap_unrecorded(alone)
    if out is input:
        return input.clone()
    return out if mode == "circular" else rename_node(out, f"{PAD_NODE_PREFIXES[mode]}{rank}DBackward0")


def _source_positions(mode: str, shape: Sequence[int], d: int, before: int, after: int) -> Operand:
    """Return the elements of dimension d that stand in the border and between, in order."""
    n = shape[d]
    if n + before + after < (0 if mode == "circular" else 1):
        raise RuntimeError(
            f"input (size: {n}) of dimension {d} is too small for padding ({before}, {after}): the calculated output "
            f"size is {n + before + after}"
        )
    count, whole = n + before + after, np.dtype(np.int64)
    at = count_from(-before, 1, count, whole) if has_symbolic(count) else np.arange(-before, n + after)
    if mode == "replicate":
        return at.clip(0, n - 1)
    if mode == "circular":
        if before > n or after > n:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        first, kept = max(-before, 0), n - max(-before, 0) - max(-after, 0)  # what is cut away does not wrap
        return (at - first) % max(kept, 1) + first
    if before >= n or after >= n:
        raise RuntimeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {after}) at dimension {d} of input {list(shape)}"
        )
    return n - 1 - abs(n - 1 - abs(at)) if n > 1 else at * 0


_known_positions = lru_cache(256)(_source_positions)
