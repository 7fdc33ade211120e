"""Multi-head attention: projections around scaled dot product attention."""

from __future__ import annotations

import math

from adjoint.core.graph.source_location import warn_user
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DtypeLike, Operand, Operands
from adjoint.functions.creation.creation import zeros
from adjoint.functions.elementwise.activation import softmax
from adjoint.functions.linalg.matmul import linear, matmul
from adjoint.functions.nn.attention import scaled_dot_product_attention
from adjoint.functions.nn.dropout import dropout
from adjoint.functions.nn.pad import pad
from adjoint.functions.shape.join import cat
from adjoint.functions.shape.split import split
from adjoint.ops.elementwise import arithmetic
from adjoint.ops.movement import movement

__all__ = ["canonical_mask", "multi_head_attention_forward"]


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True,
    key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False, *, batch_first: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Return the output of multi-head attention, and the attention weights if `need_weights`.

    In `key_padding_mask` (N, S) and `attn_mask` (L, S) or (N·H, L, S), True excludes a key, and numbers are added to
    the scores. `is_causal` is a hint that `attn_mask` is causal. `static_k` and `static_v` (N·H, S, E/H) replace the
    projected keys and values.

    Shapes:
        query (L, N, E), key and value (S, N, ·) -> (L, N, E), weights (N, L, S)
        Weights that are not averaged are (N, H, L, S); N comes first if `batch_first`, and is optional

    Raises: AssertionError or RuntimeError where shapes do not fit.

    Source: Vaswani et al., 2017.
    """
    batched = _is_batched(query, key, value, key_padding_mask, attn_mask, num_heads)
    q: Operand = query
    k = key
    v: Operand = value
    if not batched:
        q = query.unsqueeze(1)
        k = q if key is query else key.unsqueeze(1)
        v = k if value is key else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        batch_first = False
    time, rows = (1, 0) if batch_first else (0, 1)
    steps, n, size = q.array.shape[time], q.array.shape[rows], q.array.shape[2]
    padding = canonical_mask(key_padding_mask, "key_padding_mask", attn_mask, "attn_mask", query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    causal = is_causal and padding is None and not need_weights
    mask = None if causal else canonical_mask(attn_mask, "attn_mask", None, "", query.dtype)
    _check_sizes(q, k, v, embed_dim_to_check, num_heads, use_separate_proj_weight)
    if use_separate_proj_weight:
        q, k, v = _in_projection(q, k, v, (q_proj_weight, k_proj_weight, v_proj_weight), in_proj_bias)
    else:
        q, k, v = _in_projection_packed(q, k, v, in_proj_weight, in_proj_bias)
    mask = _reshape_attn_mask(mask, steps, k.array.shape[time], n, num_heads)
    added = 0  # keys that come after those given, and that no mask leaves out
    if _has_bias_rows(bias_k, bias_v, static_k, static_v):
        shape = (n, 1, size) if batch_first else (1, n, size)
        k, v = (cat([x, movement.expand(b, shape=shape)], time) for x, b in ((k, bias_k), (v, bias_v)))
        added += 1
    q = _split_heads(q, num_heads, batch_first)
    k, v = (
        _split_heads(x, num_heads, batch_first) if given is None else _reshape_static(given, name, n, num_heads, size)
        for x, given, name in ((k, static_k, "static_k"), (v, static_v, "static_v"))
    )
    if add_zero_attn:
        nothing = zeros(n, num_heads, 1, size // num_heads, dtype=query.dtype)
        k, v = cat([k, nothing], 2), cat([v, nothing], 2)
        added += 1
    mask = _merge_masks(_pad_mask(mask, added), _pad_mask(padding, added), n, k.array.shape[2])
    dropout_p = dropout_p if training else 0.0
    attention: Tensor | None = None
    if need_weights:
        scores = matmul(arithmetic.mul(q, math.sqrt(num_heads / size)), movement.swap(k, -2, -1))
        attention = softmax(scores if mask is None else arithmetic.add(mask, scores), -1)
        attention = dropout(attention, dropout_p) if dropout_p > 0.0 else attention
        out: Operand = matmul(attention, v)
        attention = attention.mean(1) if average_attn_weights else attention
        attention = attention if batched else attention.squeeze(0)
    else:
        out = scaled_dot_product_attention(q, k, v, mask, dropout_p, causal)
    out = movement.reshape(movement.permute(out, axes=(2, 0, 1, 3)), shape=(steps * n, size))
    out = linear(out, out_proj_weight, out_proj_bias)
    out = movement.reshape(out, shape=(steps, n, out.array.shape[1]) if batched else (steps, out.array.shape[1]))
    return movement.swap(out, 0, 1) if batch_first else out, attention


def _has_bias_rows(
    bias_k: Tensor | None, bias_v: Tensor | None, static_k: Tensor | None, static_v: Tensor | None
) -> bool:
    """True if both biases are given. Raises AssertionError for one alone, and beside static keys or values."""
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError(f"bias cannot be added to static {'value' if static_k is None else 'key'}.")
        return True
    if bias_k is not None or bias_v is not None:
        missing, given = ("bias_v", "bias_k") if bias_v is None else ("bias_k", "bias_v")
        raise AssertionError(f"{given} is set but {missing} is None")
    return False


def _split_heads(x: Tensor, num_heads: int, batch_first: bool) -> Tensor:
    """Return the heads (N, H, ·, E/H) of a projection."""
    apart = movement.reshape(x, shape=(*x.array.shape[:2], num_heads, x.array.shape[2] // num_heads))
    return movement.permute(apart, axes=(0, 2, 1, 3) if batch_first else (1, 2, 0, 3))


def canonical_mask(
    mask: Tensor | None, name: str, other: Tensor | None, other_name: str, kind: DtypeLike
) -> Tensor | None:
    """Return the mask as numbers of type `kind`, -inf where a bool mask is True; warn if `other` has another type.

    Raises: AssertionError for integers.
    """
    if mask is None:
        return None
    floating = mask.array.dtype.kind in "fV"
    if not floating and mask.array.dtype.kind != "b":
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and other.dtype != mask.dtype:
        warn_user(f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.")
    return mask if floating else zeros(mask.array.shape, dtype=kind).masked_fill(mask, -math.inf)


def _is_batched(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None, num_heads: int
) -> bool:
    """True for an N among the dimensions. Raises AssertionError where the ranks do not agree."""
    rank = query.ndim
    if rank not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor")
    said = "For batched (3-D) `query`, expected" if rank == 3 else "For unbatched (2-D) `query`, expected"
    if key.ndim != rank or value.ndim != rank:
        raise AssertionError(
            f"{said} `key` and `value` to be {rank}-D but found {key.ndim}-D and {value.ndim}-D tensors respectively"
        )
    if padding is not None and padding.ndim != rank - 1:
        raise AssertionError(
            f"{said} `key_padding_mask` to be `None` or {rank - 1}-D but found {padding.ndim}-D tensor instead"
        )
    if mask is not None and mask.ndim not in (2, 3):
        raise AssertionError(f"{said} `attn_mask` to be `None`, 2-D or 3-D but found {mask.ndim}-D tensor instead")
    expected = (num_heads, query.array.shape[0], key.array.shape[0])
    if rank == 2 and mask is not None and mask.ndim == 3 and tuple(mask.array.shape) != expected:
        raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {tuple(mask.array.shape)}")
    return rank == 3


def _check_sizes(query: Tensor, key: Tensor, value: Tensor, expected: int, num_heads: int, separate: bool) -> None:
    size, k, v = query.array.shape[2], tuple(key.array.shape), tuple(value.array.shape)
    if size != expected:
        raise AssertionError(f"was expecting embedding dimension of {expected}, but got {size}")
    if size % num_heads:
        raise AssertionError(f"embed_dim {size} not divisible by num_heads {num_heads}")
    if separate and k[:2] != v[:2]:
        raise AssertionError(f"key's sequence and batch dims {k[:2]} do not match value's {v[:2]}")
    if not separate and k != v:
        raise AssertionError(f"key shape {k} does not match value shape {v}")


def _in_projection_packed(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, ...]:
    """Return the three projections by the rows of one weight (3E, E), with one product for those of the same input."""
    if weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    size = query.array.shape[-1]
    if key is value and query is key:
        return split(linear(query, weight, bias), [size] * 3, -1)
    if key is value:
        rows = [size, 2 * size]
        (w_q, w_kv), (b_q, b_kv) = split(weight, rows), (None, None) if bias is None else split(bias, rows)
        return linear(query, w_q, b_q), *split(linear(key, w_kv, b_kv), [size] * 2, -1)
    return _in_projection(query, key, value, split(weight, size), bias)


def _in_projection(
    query: Tensor, key: Tensor, value: Tensor, weights: Operands, bias: Tensor | None
) -> tuple[Tensor, ...]:
    size = query.array.shape[-1]
    biases = (None,) * 3 if bias is None else split(bias, size)
    for name, x, w in zip(("query", "key", "value"), (query, key, value), weights, strict=True):
        if w is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name[0]}_proj_weight is None")
        expected = (size, x.array.shape[-1])
        if tuple(w.array.shape) != expected:
            raise AssertionError(f"expecting {name} weights shape of {expected}, but got {tuple(w.array.shape)}")
    return tuple(linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))


def _reshape_attn_mask(mask: Tensor | None, steps: int, keys: int, n: int, num_heads: int) -> Tensor | None:
    """Return an `attn_mask` as (…, L, S). Raises RuntimeError for other sizes."""
    if mask is None:
        return None
    expected = (steps, keys) if mask.ndim == 2 else (n * num_heads, steps, keys)
    if tuple(mask.array.shape) != expected:
        raise RuntimeError(f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {expected}.")
    return mask if mask.ndim == 2 else movement.reshape(mask, shape=(n, num_heads, steps, keys))


def _reshape_static(given: Tensor, name: str, n: int, num_heads: int, size: int) -> Tensor:
    rows, keys, width = given.array.shape
    for d, got, expected in ((0, rows, n * num_heads), (2, width, size // num_heads)):
        if got != expected:
            raise AssertionError(f"expecting {name}.size({d}) of {expected}, but got {got}")
    return movement.reshape(given, shape=(n, num_heads, keys, width))


def _pad_mask(mask: Tensor | None, more: int) -> Tensor | None:
    return mask if mask is None or not more else pad(mask, (0, more))


def _merge_masks(mask: Tensor | None, padding: Tensor | None, n: int, keys: int) -> Tensor | None:
    """Merge both masks into one that broadcasts to (N, H, L, S)."""
    if padding is None:
        return mask
    for d, (got, expected) in enumerate(zip(padding.array.shape, (n, keys), strict=True)):
        if got != expected:
            raise AssertionError(f"Expected key_padded_mask.shape[{d}] to be {expected}, but got {got}")
    spread = movement.reshape(padding, shape=(n, 1, 1, keys))
    return spread if mask is None else arithmetic.add(mask, spread)
