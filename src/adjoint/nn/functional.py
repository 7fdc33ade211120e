"""The functions that modules are made of, under the names of `torch.nn.functional`."""

from __future__ import annotations

from adjoint.core.tensor import Tensor
from adjoint.functions import pointwise
from adjoint.functions.activation import (
    dropout,
    elu,
    gelu,
    hardtanh,
    leaky_relu,
    log_softmax,
    logsigmoid,
    relu6,
    selu,
    silu,
    softmax,
    softmin,
    softplus,
    tanhshrink,
)  # fmt: skip
from adjoint.functions.attention import scaled_dot_product_attention
from adjoint.functions.channel_dropout import dropout1d, dropout2d, dropout3d
from adjoint.functions.classification import cross_entropy, nll_loss, one_hot
from adjoint.functions.comparing_loss import (
    bilinear,
    cosine_embedding_loss,
    hinge_embedding_loss,
    kl_div,
    margin_ranking_loss,
    pairwise_distance,
    soft_margin_loss,
    triplet_margin_loss,
)
from adjoint.functions.convolution import conv1d, conv2d, conv3d, pad, unfold
from adjoint.functions.elementary import threshold
from adjoint.functions.embedding import embedding
from adjoint.functions.gating import (
    celu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    mish,
    prelu,
    softshrink,
    softsign,
)
from adjoint.functions.group_normalization import group_norm, rms_norm
from adjoint.functions.linear import linear
from adjoint.functions.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    huber_loss,
    l1_loss,
    mse_loss,
    smooth_l1_loss,
)  # fmt: skip
from adjoint.functions.multihead import multi_head_attention_forward
from adjoint.functions.normalization import batch_norm, cosine_similarity, instance_norm, layer_norm, normalize
from adjoint.functions.pointwise import sigmoid, tanh
from adjoint.functions.pooling import avg_pool1d, avg_pool2d, max_pool1d, max_pool2d
from adjoint.functions.resampling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    interpolate,
    pixel_shuffle,
    pixel_unshuffle,
)

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool1d", "avg_pool2d", "batch_norm",
    "bilinear", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "conv1d", "conv2d", "conv3d",
    "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "dropout", "dropout1d", "dropout2d", "dropout3d",
    "elu", "embedding", "gelu", "glu", "group_norm", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "hinge_embedding_loss", "huber_loss", "instance_norm", "interpolate", "kl_div", "l1_loss", "layer_norm",
    "leaky_relu", "linear", "log_softmax", "logsigmoid", "margin_ranking_loss", "max_pool1d", "max_pool2d", "mish",
    "mse_loss", "multi_head_attention_forward", "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance",
    "pixel_shuffle", "pixel_unshuffle", "prelu", "relu", "relu6", "relu_", "rms_norm",
    "scaled_dot_product_attention", "selu", "sigmoid", "silu", "smooth_l1_loss", "soft_margin_loss", "softmax",
    "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "triplet_margin_loss",
    "unfold",
]  # fmt: skip


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return input.relu_() if inplace else pointwise.relu(input)


def relu_(input: Tensor) -> Tensor:
    """`relu` written into its input."""
    return relu(input, inplace=True)
