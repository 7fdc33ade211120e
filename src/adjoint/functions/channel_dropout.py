"""Dropout of whole channels."""

from __future__ import annotations

from typing import Any

from adjoint.core.generator import default_generator
from adjoint.core.tensor import Tensor
from adjoint.functions.surface import in_place
from adjoint.ops import arithmetic, random

__all__ = ["dropout1d", "dropout2d", "dropout3d"]


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each channel of (N, C, L) or (C, L) 0 with probability p, else divided by 1 - p. Raises as `dropout` does."""
    return _by_channel("dropout1d", input, p, training, inplace, 1)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each channel of (N, C, H, W) 0 with probability p, else divided by 1 - p. Raises as `dropout` does."""
    return _by_channel("dropout2d", input, p, training, inplace, 2)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each channel of (N, C, D, H, W) or (C, D, H, W) 0 with probability p, else divided by 1 - p."""
    return _by_channel("dropout3d", input, p, training, inplace, 3)


def _by_channel(name: str, input: Tensor, p: float, training: bool, inplace: bool, rank: int) -> Any:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    allowed = (rank + 2,) if rank == 2 else (rank + 1, rank + 2)  # three dimensions could be meant in two ways
    if input.ndim not in allowed:
        expected = " or ".join(f"{n}D" for n in allowed)
        raise RuntimeError(f"{name}: Expected {expected} input, but received a {input.ndim}D input.")
    if not training or p == 0:
        return input
    shape, kept = input.array.shape, input.ndim - rank
    factor = random.dropout_factor(
        shape=(*shape[:kept], *(1 for _ in range(rank))), dtype=input.array.dtype, p=p, generator=default_generator
    )
    out = arithmetic.mul(input, factor)
    return in_place(lambda _: out, f"{name}_")(input) if inplace else out
