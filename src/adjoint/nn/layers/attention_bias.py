"""Causal masks of attention as a subclass of Tensor, also for unequal numbers of queries and keys."""

from __future__ import annotations

from enum import IntEnum
from typing import Self

from adjoint.core.tensor.tensor import Tensor, init_slots
from adjoint.core.typing import DeviceLike
from adjoint.ops.creation import mark_triangle

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Corner of the mask (L, S) in which the diagonal of the triangle starts."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """Causal mask (seq_len_q, seq_len_kv), True where a query attends to a key.

    `UPPER_LEFT` aligns the first query with the first key, `LOWER_RIGHT` the last with the last.
    """

    __slots__ = ()
    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Self:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {variant!r}")
        shift = seq_len_kv - seq_len_q if variant == CausalVariant.LOWER_RIGHT else 0
        mask = object.__new__(cls)
        init_slots(mask, mark_triangle(seq_len_q, seq_len_kv, shift).array)
        mask.variant, mask.seq_len_q, mask.seq_len_kv = variant, seq_len_q, seq_len_kv
        return mask

    @property
    def aligns_first(self) -> bool:
        """Whether the first query attends to the first key alone, as with `is_causal`."""
        return self.variant == CausalVariant.UPPER_LEFT or self.seq_len_q == self.seq_len_kv

    def _materialize(self, device: DeviceLike = None) -> Tensor:
        return self.detach()


def causal_upper_left(*size: int) -> CausalBias:
    """Return the mask (L, S) in which query i attends to the keys up to i."""
    return _make_causal_bias(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """Return the mask (L, S) in which query i attends to the keys up to S - L + i.

    This alignment suits queries that follow cached keys.
    """
    return _make_causal_bias(CausalVariant.LOWER_RIGHT, size)


def _make_causal_bias(variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise AssertionError(f"causal_{variant.name.lower()} only supports 2D tensors, got size {size}")
    return CausalBias(variant, *size)
