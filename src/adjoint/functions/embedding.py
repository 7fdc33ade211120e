"""Rows of a table, looked up by number."""

from __future__ import annotations

from typing import Any

from adjoint.core.op import apply
from adjoint.core.tensor import Tensor
from adjoint.ops import comparison, indexing, movement, selection

__all__ = ["embedding"]


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: Any = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of `weight` (V, D) at the indices `input` (…): (…, D). The row `padding_idx` gets no gradient.

    Raises IndexError for indices outside [0, V).
    """
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise RuntimeError("embedding: max_norm, scale_grad_by_freq and sparse are not supported yet")
    if input.array.dtype.kind not in "iu":
        raise RuntimeError(
            f"Expected tensor for argument #1 'indices' to have scalar type Long or Int, but got {input.dtype}"
        )
    rows = weight.array.shape[0]
    indexing.check_range(input, rows, f"index out of range in self: {{}}, embedding has {rows} rows", low=0)
    out = apply(indexing.index.op, (weight, input), {"pattern": (0,)})  # type: ignore[attr-defined]
    if padding_idx is None:
        return out
    padded = comparison.eq(input, padding_idx % rows)
    mask = movement.reshape(padded, shape=(*input.array.shape, 1))
    return selection.where(mask, out.detach(), out)
