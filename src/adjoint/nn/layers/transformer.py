"""The transformer: stacks of attention and feed-forward layers, with norms and residual sums."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar

import numpy as np

from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike, Function
from adjoint.functions.creation.creation import full
from adjoint.functions.nn.multihead_attention import canonical_mask
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.containers.containers import ModuleList
from adjoint.nn.layers.attention import MultiheadAttention
from adjoint.nn.layers.dropout import Dropout
from adjoint.nn.layers.linear import Linear
from adjoint.nn.layers.normalization import LayerNorm
from adjoint.nn.module.module import Module
from adjoint.nn.module.module_docstring import inherit_sections

__all__ = ["Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder"]
__all__ += ["TransformerEncoderLayer"]
Activation = str | Callable[[Tensor], Tensor]


class Transformer(Module):
    """Transformer of an encoder and a decoder: decoder(tgt, encoder(src)).

    A call takes `src` and `tgt`, and optionally masks, key padding masks and causal hints for src, tgt and memory. The
    initial weights are Xavier uniform. Token embeddings and the output layer are not part of the module.

    Args:
        d_model: number of features of each element, E. Default: 512.
        nhead: number of attention heads; it divides `d_model`. Default: 8.
        num_encoder_layers, num_decoder_layers: number of layers of each stack. Default: 6.
        dim_feedforward: size of the hidden layer of the feed-forward parts. Default: 2048.
        dropout: probability of dropout, in training. Default: 0.1.
        activation: "relu", "gelu" or a function of a tensor. Default: `F.relu`.
        custom_encoder, custom_decoder: modules in place of the stacks. Default: None.
        layer_norm_eps: `eps` of the layer norms. Default: 1e-5.
        batch_first: True for tensors (N, T, E) instead of (T, N, E). Default: False.
        norm_first: True to normalize the input of each part instead of each sum. Default: False.
        bias: False for linear layers and norms without biases. Default: True.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Shapes:
        src (S, N, E), tgt (T, N, E) -> (T, N, E); the batch dimension N is optional

    Raises: RuntimeError in a call for unequal batches, and for features other than `d_model`.

    Source: Vaswani et al., Attention Is All You Need, 2017.

    Example:
        >>> model = nn.Transformer(8, 2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
        >>> model(ad.zeros(4, 3, 8), ad.zeros(5, 3, 8)).shape
        adjoint.Size([5, 3, 8])
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = F.relu,
        custom_encoder: Function | None = None, custom_decoder: Function | None = None, layer_norm_eps: float = 1e-05,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: DeviceLike = None,
        dtype: DtypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        layer = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device,
            dtype,
        )  # fmt: skip
        norm = partial(LayerNorm, d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        if custom_encoder is None:
            custom_encoder = TransformerEncoder(TransformerEncoderLayer(*layer), num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(TransformerDecoderLayer(*layer), num_decoder_layers, norm())
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        rows = 0 if self.batch_first else 1
        if src.ndim == 3 and src.array.shape[rows] != tgt.array.shape[rows]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.array.shape[-1] != self.d_model or tgt.array.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask,
            memory_mask,
            tgt_key_padding_mask,
            memory_key_padding_mask,
            tgt_is_causal,
            memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: DeviceLike = None, dtype: DtypeLike = None) -> Tensor:
        """Return the causal mask (sz, sz): -inf above the diagonal, else 0."""
        return full((sz, sz), float("-inf"), dtype=dtype, device=device).triu(1)

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)


class TransformerEncoder(Module):
    """Stack of encoder layers: copies of one layer in sequence, then an optional norm.

    The copies start with equal parameters. A call takes `src`, and optionally `mask` (T, T), `src_key_padding_mask` (N,
    T) and `is_causal`, by default found out from the mask.

    Args:
        encoder_layer: module to copy, such as a `TransformerEncoderLayer`.
        num_layers: number of copies.
        norm: module applied to the last output. Default: None.
        enable_nested_tensor, mask_check: accepted and ignored. Default: True.

    Shapes:
        src (T, N, E) -> (T, N, E); the batch dimension N is optional

    Example:
        >>> layer = nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16)
        >>> encoder = nn.TransformerEncoder(layer, num_layers=2)
        >>> encoder(ad.zeros(5, 3, 8)).shape
        adjoint.Size([5, 3, 8])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        padding = canonical_mask(src_key_padding_mask, "src_key_padding_mask", mask, "mask", src.dtype)
        mask = canonical_mask(mask, "mask", None, "", src.dtype)
        causal = _is_causal(mask, is_causal, src, self.layers)
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """Stack of decoder layers: copies of one layer in sequence, each with attention to `memory`, then an optional norm.

    `tgt_is_causal` and `memory_is_causal` are hints that the masks are causal.

    Shapes:
        tgt (T, N, E) and memory (S, N, E), or (N, T, E) and (N, S, E) with `batch_first` -> the shape of tgt
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        causal = _is_causal(tgt_mask, tgt_is_causal, tgt, self.layers)
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class TransformerLayer(Module):
    """Layer of a transformer: parts with residual sums and layer norms, the last of them feed-forward.

    Args:
        d_model: number of features of each element, E.
        nhead: number of attention heads; it divides `d_model`.
        dim_feedforward: size of the hidden layer of the feed-forward part. Default: 2048.
        dropout: probability of dropout in attention and after each part, in training. Default: 0.1.
        activation: "relu", "gelu" or a function of a tensor. Default: `F.relu`.
        layer_norm_eps: `eps` of the layer norms. Default: 1e-5.
        batch_first: True for tensors (N, T, E) instead of (T, N, E). Default: False.
        norm_first: True to normalize the input of each part instead of each sum. Default: False.
        bias: False for linear layers and norms without biases. Default: True.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Raises: RuntimeError for another name of an activation.

    Source: Vaswani et al., Attention Is All You Need, 2017.
    """

    attentions: ClassVar[tuple[str, ...]]  # one part for each, and the feed-forward part
    self_attn: MultiheadAttention
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-05, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: DeviceLike = None, dtype: DtypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        settings: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        for name in self.attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **settings))
        self.linear1 = Linear(d_model, dim_feedforward, **settings)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **settings)
        self.norm_first = norm_first
        parts = range(1, len(self.attentions) + 2)
        for part in parts:
            setattr(self, f"norm{part}", LayerNorm(d_model, layer_norm_eps, **settings))
        for part in parts:
            setattr(self, f"dropout{part}", Dropout(dropout))
        self.activation = _get_activation_fn(activation)

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        attended, _ = self.self_attn(x, x, x, key_padding_mask, False, attn_mask, is_causal=is_causal)
        return _apply_dropout_time_first(self.dropout1, attended, self.self_attn.batch_first)

    def _ff_block(self, x: Tensor) -> Tensor:
        last: Dropout = getattr(self, f"dropout{len(self.attentions) + 1}")
        return last(self.linear2(self.dropout(self.activation(self.linear1(x)))))


@inherit_sections
class TransformerEncoderLayer(TransformerLayer):
    """Encoder layer of a transformer: self-attention and a feed-forward part, with residual sums and layer norms.

    A call takes `src`, and optionally `src_mask` (T, T), `src_key_padding_mask` (N, T) and `is_causal`.

    Shapes:
        src (T, N, E) -> (T, N, E); the batch dimension N is optional

    Example:
        >>> layer = nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16)
        >>> layer(ad.zeros(5, 3, 8)).shape
        adjoint.Size([5, 3, 8])
    """

    attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        padding = canonical_mask(src_key_padding_mask, "src_key_padding_mask", src_mask, "src_mask", src.dtype)
        mask = canonical_mask(src_mask, "src_mask", None, "", src.dtype)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))


@inherit_sections
class TransformerDecoderLayer(TransformerLayer):
    """Decoder layer of a transformer: self-attention, attention to `memory` and a feed-forward part.

    Each part has a residual sum and a layer norm. A call takes `tgt` and `memory`, and optionally for each of the two a
    mask, a key padding mask and a hint `tgt_is_causal` or `memory_is_causal`.

    Shapes:
        tgt (T, N, E), memory (S, N, E) -> (T, N, E); the batch dimension N is optional

    Example:
        >>> layer = nn.TransformerDecoderLayer(d_model=8, nhead=2, dim_feedforward=16)
        >>> layer(ad.zeros(5, 3, 8), ad.zeros(4, 3, 8)).shape
        adjoint.Size([5, 3, 8])
    """

    attentions = ("self_attn", "multihead_attn")
    multihead_attn: MultiheadAttention
    norm3: LayerNorm
    dropout3: Dropout

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        others = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), *others)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, *others))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        attended, _ = self.multihead_attn(x, mem, mem, key_padding_mask, False, attn_mask, is_causal=is_causal)
        return _apply_dropout_time_first(self.dropout2, attended, self.multihead_attn.batch_first)


def _apply_dropout_time_first(dropout: Dropout, attended: Tensor, batch_first: bool) -> Tensor:
    """Apply dropout in the order in which PyTorch draws: attention's result has time first in memory."""
    if attended.ndim == 2 or not batch_first:
        return dropout(attended)
    return dropout(attended.transpose(0, 1)).transpose(0, 1)


def _is_causal(mask: Tensor | None, hint: bool | None, x: Tensor, layers: ModuleList) -> bool:
    """Return the hint, or else True if the mask excludes just the keys after each query; False in a traced step."""
    if hint is not None or mask is None:
        return bool(hint)
    array, attention = mask.array, getattr(layers[0], "self_attn", None) if layers else None
    length = x.shape[1 if x.ndim == 3 and getattr(attention, "batch_first", False) else 0]
    if mode.interpreter is not None or type(array) is not np.ndarray or array.shape != (length, length):
        return False
    return bool((mask == Transformer.generate_square_subsequent_mask(length, dtype=mask.dtype)).all())


def _get_activation_fn(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    functions: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
    if activation not in functions:
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return functions[activation]


def _get_clones(module: Module, count: int) -> ModuleList:
    return ModuleList([deepcopy(module) for _ in range(count)])
