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
from adjoint.functions.classification import cross_entropy, nll_loss, one_hot
from adjoint.functions.convolution import conv1d, conv2d, conv3d, pad, unfold
from adjoint.functions.elementary import threshold
from adjoint.functions.embedding import embedding
from adjoint.functions.linear import linear
from adjoint.functions.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    huber_loss,
    l1_loss,
    mse_loss,
    smooth_l1_loss,
)  # fmt: skip
from adjoint.functions.normalization import batch_norm, cosine_similarity, instance_norm, layer_norm, normalize
from adjoint.functions.pointwise import sigmoid, tanh
from adjoint.functions.pooling import avg_pool1d, avg_pool2d, max_pool1d, max_pool2d

__all__ = [
    "avg_pool1d", "avg_pool2d", "batch_norm", "binary_cross_entropy", "binary_cross_entropy_with_logits", "conv1d",
    "conv2d", "conv3d", "cosine_similarity", "cross_entropy", "dropout", "elu", "embedding", "gelu", "hardtanh",
    "huber_loss", "instance_norm", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax", "logsigmoid",
    "max_pool1d", "max_pool2d", "mse_loss", "nll_loss", "normalize", "one_hot", "pad", "relu", "relu6", "relu_", "selu",
    "sigmoid", "silu", "smooth_l1_loss", "softmax", "softmin", "softplus", "tanh", "tanhshrink", "threshold", "unfold",
]  # fmt: skip


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return input.relu_() if inplace else pointwise.relu(input)


def relu_(input: Tensor) -> Tensor:
    """`relu` written into its input."""
    return relu(input, inplace=True)
