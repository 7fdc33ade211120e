"""Attention: each query's average of the values, weighed by how its key matches theirs."""

from __future__ import annotations

import math

import numpy as np

from adjoint.core.op.spec import broadcast_shapes
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Shape
from adjoint.functions.api.compute_dtype import autocast_lower, in_float32
from adjoint.functions.api.publish import rename_node
from adjoint.functions.linalg.matmul import matmul
from adjoint.functions.nn.dropout import dropout
from adjoint.ops.elementwise import select
from adjoint.ops.movement import movement
from adjoint.ops.nn.attention import attention, attention_weights

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)
__all__ = ["scaled_dot_product_attention"]


@autocast_lower
@in_float32
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return softmax(query keyᵀ · scale + mask) value: (…, L, E), (…, S, E) and (…, S, Ev) give (…, L, Ev).

    `scale` is 1/√E unless given. A mask of truths says which keys take part, one of numbers is added, `is_causal`
    leaves query i the keys up to i; a query without any key gets zeros. With `enable_gqa` the heads, dimension -3, of
    query are a multiple of those of key and value, each of which serves several. Leading dimensions broadcast.
    Raises RuntimeError, naming the shapes or types, if they do not fit. Source: Vaswani et al., 2017.
    """
    _check(query, key, value, attn_mask, is_causal)
    if not dropout_p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    if query.array.dtype != HALF:
        return _compute_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    q, k, v = (select.cast(x, dtype=SINGLE) for x in (query, key, value))
    return select.cast(_compute_attention(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa), dtype=HALF)


def _compute_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    gqa: bool,
) -> Operand:
    if gqa:
        key, value = _repeat_heads("key", key, query), _repeat_heads("value", value, query)
    lead = _broadcast_leading_dims(query, key, value, attn_mask)
    weights_shape = query.array.shape[-2], key.array.shape[-2]
    if attn_mask is not None and getattr(attn_mask, "aligns_first", False) and attn_mask.array.shape == weights_shape:
        attn_mask, is_causal = None, True  # a CausalBias that says what the flag does
    if scale is None:
        size = query.array.shape[-1]
        scale = 1.0 / math.sqrt(size) if size else math.inf
    if attn_mask is not None:
        attn_mask = _reshape_mask(attn_mask, lead, query)
    if dropout_p <= 0.0 and not _has_gradient(attn_mask):
        return _apply_attention_op(query, key, value, attn_mask, lead, is_causal, scale)
    query, key, value = (_expand_leading_dims(x, lead) for x in (query, key, value))
    weights = attention_weights(query, key, attn_mask, scale, is_causal)
    out = matmul(dropout(weights, dropout_p) if dropout_p > 0.0 else weights, value)
    return out if len(lead) > 1 else movement.reshape_unshared(out, (*lead, *out.array.shape[-2:]))


def _has_gradient(mask: Tensor | None) -> bool:
    """True for a mask whose gradient, as large as all weights, may be asked for."""
    return (
        mask is not None and mask.array.dtype.kind in "fV" and (mask.requires_grad or mode.forward_levels is not None)
    )


def _apply_attention_op(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, lead: Shape, causal: bool, scale: float
) -> Tensor:
    """Apply the op to stacks of heads, (…, H, rows, size), all with the same leading dimensions."""
    rank = len(lead)
    if rank < 2 or not query.array.shape[:-2] == key.array.shape[:-2] == value.array.shape[:-2] == lead:
        query, key, value = (_expand_leading_dims(x, lead) for x in (query, key, value))
    out = attention(query, key, value, mask, scale=scale, causal=causal)
    if rank < 2:
        out = movement.reshape_unshared(out, (*lead, query.array.shape[-2], value.array.shape[-1]))
    else:
        out = movement.permute(out, axes=movement.exchange(rank + 2, rank - 1, rank))
    return rename_node(out, "ScaledDotProductFlashAttentionForCpuBackward0")


def _expand_leading_dims(x: Tensor, lead: Shape) -> Tensor:
    """Expand `x` to all of the leading dimensions, and to one head if there are none."""
    size = tuple(x.array.shape[-2:])
    if tuple(x.array.shape[:-2]) != lead:
        x = movement.expand(x, shape=(*lead, *size))
    return x if len(lead) > 1 else movement.reshape(x, shape=(*lead, 1, *size))


def _reshape_mask(mask: Tensor, lead: Shape, like: Tensor) -> Tensor:
    """Return the mask with as many dimensions as the stacks of heads, in their type unless it holds truths."""
    if mask.array.dtype.kind != "b" and mask.array.dtype != like.array.dtype:
        mask = select.cast(mask, dtype=like.array.dtype)
    *own, rows, keys = (1,) * (len(lead) + 2 - mask.ndim) + tuple(mask.array.shape)
    shape = (*own, *(1,) * (len(lead) < 2), rows, keys)
    return mask if tuple(mask.array.shape) == shape else movement.reshape(mask, shape=shape)


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool) -> None:
    if mask is None and type(query) is type(key) is type(value) is Tensor:
        q, k, v = query.array, key.array, value.array
        alike = q.dtype is k.dtype is v.dtype and q.dtype.kind == "f"
        if (
            alike
            and len(q.shape) == len(k.shape) == len(v.shape) > 1
            and q.shape[-1] == k.shape[-1]
            and k.shape[-2] == v.shape[-2]
        ):
            return  # as nearly always
    named = {"query": query, "key": key, "value": value}
    for name, given in named.items():
        if not isinstance(given, Tensor):
            raise TypeError(
                f"scaled_dot_product_attention(): argument '{name}' must be Tensor, not {type(given).__name__}"
            )
    shapes = ", ".join(f"{name} {tuple(x.array.shape)}" for name, x in named.items())
    if min(x.ndim for x in named.values()) < 2:
        raise RuntimeError(f"Expected query, key, and value to all be  at least 2 dimensional, but got {shapes}")
    if len({x.array.dtype for x in named.values()}) > 1:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got "
            + ", ".join(f"{name} {x.dtype}" for name, x in named.items())
        )
    kind = query.array.dtype
    if kind.kind not in "fV":
        raise RuntimeError(f"scaled_dot_product_attention: expected tensors of a floating type, but got {query.dtype}")
    if key.array.shape[-1] != query.array.shape[-1] or key.array.shape[-2] != value.array.shape[-2]:
        raise RuntimeError(
            "scaled_dot_product_attention: expected query (…, L, E), key (…, S, E) and value (…, S, Ev), but got "
            f"{shapes}"
        )
    if mask is None:
        return
    if mask.array.dtype != kind and mask.array.dtype not in (np.bool_, np.float32):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{mask.dtype} and  query.dtype: {query.dtype} instead."
        )
    if causal:
        if hasattr(mask, "variant"):
            raise ValueError("CausalBias should not be used with causal=True")
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")


def _repeat_heads(name: str, x: Tensor, query: Tensor) -> Tensor:
    """Repeat each head of `x`, so that there are as many as in `query`."""
    if (rank := min(x.ndim, query.ndim)) < 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got -3): enable_gqa needs "
            f"query and {name} with heads, (…, heads, rows, size)"
        )
    *lead, heads, rows, size = x.array.shape
    wanted = query.array.shape[-3]
    if heads == wanted:
        return x
    if not heads or wanted % heads:
        raise RuntimeError(
            f"Number of heads in key and value must divide the number of heads in query, but got {heads} in {name} and "
            f"{wanted} in query"
        )
    each = movement.reshape(x, shape=(*lead, heads, 1, rows, size))
    spread = movement.expand(each, shape=(*lead, heads, wanted // heads, rows, size))
    return movement.reshape(spread, shape=(*lead, wanted, rows, size))


def _broadcast_leading_dims(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Shape:
    """Return the leading dimensions of all. Raises RuntimeError if they, or mask and weights, do not broadcast."""
    q, k, v = query.array.shape, key.array.shape, value.array.shape
    if mask is None and q[:-2] == k[:-2] == v[:-2]:
        return q[:-2]
    q, k, v = tuple(q), tuple(k), tuple(v)
    try:
        shape = (*broadcast_shapes(q[:-2], k[:-2]), q[-2], k[-2])
        lead = broadcast_shapes(shape[:-2], v[:-2])
        spread = shape if mask is None else broadcast_shapes(shape, tuple(mask.array.shape))
    except ValueError as error:
        given = "" if mask is None else f" and attn_mask {tuple(mask.array.shape)}"
        raise RuntimeError(f"{error}: scaled_dot_product_attention of query {q}, key {k}, value {v}{given}") from None
    if spread != shape:
        raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(spread)}")
    return lead
