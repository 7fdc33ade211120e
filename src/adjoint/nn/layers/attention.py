"""Attention with several heads as a module."""

from __future__ import annotations

from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.creation import empty
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.layers.linear import Linear
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """A `Linear` under the name that PyTorch shows for the output projection."""


class MultiheadAttention(Module):
    """(output, weights or None) of query (L, N, embed_dim), key (S, N, kdim) and value (S, N, vdim).

    N stands in front if `batch_first`, and may be missing. The rows of `in_proj_weight` are the projections of queries,
    keys and values one below the other; with other sizes `kdim` and `vdim` each has a weight of its own. For the masks
    see `functional.multi_head_attention_forward`. Source: Vaswani et al., 2017.
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        made = {"dtype": dtype, "device": device}
        together = self._qkv_same_embed_dim
        for name, inputs in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            weight = None if together else Parameter(empty(embed_dim, inputs, **made))
            self.register_parameter(f"{name}_proj_weight", weight)
        weight = Parameter(empty(3 * embed_dim, embed_dim, **made)) if together else None
        self.register_parameter("in_proj_weight", weight)
        self.register_parameter("in_proj_bias", Parameter(empty(3 * embed_dim, **made)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, Parameter(empty(1, 1, embed_dim, **made)) if add_bias_kv else None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None and self.out_proj.bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        return F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, self.training,
            key_padding_mask, need_weights, attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal,
            batch_first=self.batch_first,
        )  # fmt: skip
