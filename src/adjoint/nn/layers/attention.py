"""Attention with several heads as a module."""

from __future__ import annotations

from functools import partial

from adjoint.core.runtime.explanation_slot import with_explanation
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike
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
    """Attention with several heads: softmax(Q Kᵀ / √(embed_dim / num_heads)) V per head, then an output projection.

    A call takes query, key and value, and returns the output and the attention weights; `forward` lists its options.

    Args:
        embed_dim: size of queries and outputs, E.
        num_heads: number of heads; it divides `embed_dim`.
        dropout: probability of dropout on the attention weights, in training. Default: 0.
        bias: False for projections without biases. Default: True.
        add_bias_kv: True to append one learned key and value. Default: False.
        add_zero_attn: True to append a key and value of zeros. Default: False.
        kdim, vdim: sizes of keys and values. Default: `embed_dim`.
        batch_first: True for tensors (N, L, E) instead of (L, N, E). Default: False.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Shapes:
        query (L, N, E), key (S, N, kdim), value (S, N, vdim) -> output (L, N, E), weights (N, L, S); N is optional

    Raises: ValueError for sizes below 1, AssertionError if `num_heads` does not divide `embed_dim`.

    Source: Vaswani et al., Attention Is All You Need, 2017.

    Example:
        >>> attention = nn.MultiheadAttention(8, num_heads=2, batch_first=True)
        >>> x = ad.zeros(3, 5, 8)
        >>> output, weights = attention(x, x, x)
        >>> output.shape, weights.shape
        (adjoint.Size([3, 5, 8]), adjoint.Size([3, 5, 5]))
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
        device: DeviceLike = None, dtype: DtypeLike = None,
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
            raise with_explanation(AssertionError("embed_dim must be divisible by num_heads"))
        allocate = partial(empty, dtype=dtype, device=device)
        together = self._qkv_same_embed_dim
        for name, inputs in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            weight = None if together else Parameter(allocate(embed_dim, inputs))
            self.register_parameter(f"{name}_proj_weight", weight)
        weight = Parameter(allocate(3 * embed_dim, embed_dim)) if together else None
        self.register_parameter("in_proj_weight", weight)
        self.register_parameter("in_proj_bias", Parameter(allocate(3 * embed_dim)) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, Parameter(allocate(1, 1, embed_dim)) if add_bias_kv else None)
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
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output and the attention weights.

        A mask of bools excludes the keys where it is True. A mask of numbers is added to the scores.

        Args:
            query: tensor (L, N, E), or (N, L, E) with `batch_first`, or (L, E).
            key: tensor (S, N, kdim), likewise.
            value: tensor (S, N, vdim), likewise.
            key_padding_mask: tensor (N, S), keys to exclude. Default: None.
            need_weights: False to return None in place of the weights. Default: True.
            attn_mask: tensor (L, S) or (N·num_heads, L, S), keys to exclude for each query. Default: None.
            average_attn_weights: False for weights (N, num_heads, L, S) instead of their mean. Default: True.
            is_causal: True as a hint that `attn_mask` is causal; the mask is still needed. Default: False.

        Raises: AssertionError or RuntimeError for shapes that do not fit.

        Example:
            >>> attention = nn.MultiheadAttention(8, num_heads=2)
            >>> x = ad.zeros(5, 3, 8)
            >>> mask = ad.ones(5, 5, dtype=ad.bool).triu(1)
            >>> output, weights = attention(x, x, x, attn_mask=mask)
            >>> weights[0, 0].tolist()
            [1.0, 0.0, 0.0, 0.0, 0.0]
        """
        return F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, self.training,
            key_padding_mask, need_weights, attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal,
            batch_first=self.batch_first,
        )  # fmt: skip
