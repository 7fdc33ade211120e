"""The functions that modules are made of, under the names of `torch.nn.functional`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.core.runtime.lazy_import import attach_lazy_names
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.elementwise import pointwise

if TYPE_CHECKING:
    from adjoint.functions.elementwise.activation import (
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
    )
    from adjoint.functions.elementwise.gated_activation import (
        celu,
        glu,
        gumbel_softmax,
        hardshrink,
        hardsigmoid,
        hardswish,
        mish,
        prelu,
        softshrink,
        softsign,
    )
    from adjoint.functions.elementwise.inplace_activation import (
        alpha_dropout,
        elu_,
        feature_alpha_dropout,
        hardtanh_,
        leaky_relu_,
        rrelu,
    )
    from adjoint.functions.elementwise.pointwise import sigmoid, tanh
    from adjoint.functions.elementwise.relu_variants import celu_, rrelu_, selu_, threshold, threshold_
    from adjoint.functions.linalg.distance import pdist
    from adjoint.functions.linalg.matmul import bilinear, linear
    from adjoint.functions.loss.classification import cross_entropy, nll_loss
    from adjoint.functions.loss.ctc import ctc_loss
    from adjoint.functions.loss.margin import (
        gaussian_nll_loss,
        linear_cross_entropy,
        multi_margin_loss,
        multilabel_margin_loss,
        multilabel_soft_margin_loss,
        poisson_nll_loss,
        triplet_margin_with_distance_loss,
    )
    from adjoint.functions.loss.regression import (
        binary_cross_entropy,
        binary_cross_entropy_with_logits,
        huber_loss,
        l1_loss,
        mse_loss,
        smooth_l1_loss,
    )
    from adjoint.functions.loss.similarity import (
        cosine_embedding_loss,
        cosine_similarity,
        hinge_embedding_loss,
        kl_div,
        margin_ranking_loss,
        pairwise_distance,
        soft_margin_loss,
        triplet_margin_loss,
    )
    from adjoint.functions.nn.adaptive_pooling import (
        adaptive_avg_pool1d,
        adaptive_avg_pool2d,
        adaptive_avg_pool3d,
        adaptive_max_pool1d,
        adaptive_max_pool1d_with_indices,
        adaptive_max_pool2d,
        adaptive_max_pool2d_with_indices,
        adaptive_max_pool3d,
        adaptive_max_pool3d_with_indices,
        fractional_max_pool2d,
        fractional_max_pool2d_with_indices,
        fractional_max_pool3d,
        fractional_max_pool3d_with_indices,
        lp_pool1d,
        lp_pool2d,
        lp_pool3d,
    )
    from adjoint.functions.nn.attention import scaled_dot_product_attention
    from adjoint.functions.nn.channel_ops import (
        channel_shuffle,
        native_channel_shuffle,
        pixel_shuffle,
        pixel_unshuffle,
    )
    from adjoint.functions.nn.conv_transpose import conv_tbc, conv_transpose1d, conv_transpose2d, conv_transpose3d
    from adjoint.functions.nn.convolution import conv1d, conv2d, conv3d
    from adjoint.functions.nn.dropout import dropout, dropout1d, dropout2d, dropout3d
    from adjoint.functions.nn.embedding import embedding, one_hot
    from adjoint.functions.nn.embedding_bag import embedding_bag
    from adjoint.functions.nn.grid_sample import affine_grid, grid_sample
    from adjoint.functions.nn.group_norm import group_norm, rms_norm
    from adjoint.functions.nn.interpolate import interpolate, upsample, upsample_bilinear, upsample_nearest
    from adjoint.functions.nn.multihead_attention import multi_head_attention_forward
    from adjoint.functions.nn.normalization import (
        batch_norm,
        instance_norm,
        layer_norm,
        local_response_norm,
        normalize,
    )
    from adjoint.functions.nn.pad import pad
    from adjoint.functions.nn.pooling import (
        avg_pool1d,
        avg_pool2d,
        avg_pool3d,
        max_pool1d,
        max_pool1d_with_indices,
        max_pool2d,
        max_pool2d_with_indices,
        max_pool3d,
        max_pool3d_with_indices,
    )
    from adjoint.functions.nn.unpool_fold import fold, max_unpool1d, max_unpool2d, max_unpool3d, unfold

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "affine_grid", "alpha_dropout", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "batch_norm", "bilinear", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "celu", "celu_", "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss",
    "dropout", "dropout1d", "dropout2d", "dropout3d", "elu", "elu_", "embedding", "embedding_bag",
    "feature_alpha_dropout", "fold", "fractional_max_pool2d", "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "gaussian_nll_loss", "gelu", "glu", "grid_sample",
    "group_norm", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_",
    "hinge_embedding_loss", "huber_loss", "instance_norm", "interpolate", "kl_div", "l1_loss", "layer_norm",
    "leaky_relu", "leaky_relu_", "linear", "linear_cross_entropy", "local_response_norm", "log_softmax", "logsigmoid",
    "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss", "max_pool1d", "max_pool1d_with_indices", "max_pool2d",
    "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d",
    "mish", "mse_loss", "multi_head_attention_forward", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "native_channel_shuffle", "nll_loss", "normalize", "one_hot", "pad",
    "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss", "prelu", "relu", "relu6",
    "relu_", "rms_norm", "rrelu", "rrelu_", "scaled_dot_product_attention", "selu", "selu_", "sigmoid", "silu",
    "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh",
    "tanhshrink", "threshold", "threshold_", "triplet_margin_loss", "triplet_margin_with_distance_loss", "unfold",
    "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip
_HOMES = {
    "elementwise.activation": """
        elu gelu hardtanh leaky_relu log_softmax logsigmoid relu6 selu silu softmax softmin softplus tanhshrink
    """,
    "elementwise.gated_activation": """
        celu glu gumbel_softmax hardshrink hardsigmoid hardswish mish prelu softshrink softsign
    """,
    "elementwise.inplace_activation": "alpha_dropout elu_ feature_alpha_dropout hardtanh_ leaky_relu_ rrelu",
    "elementwise.pointwise": "sigmoid tanh",
    "elementwise.relu_variants": "celu_ rrelu_ selu_ threshold threshold_",
    "linalg.distance": "pdist",
    "linalg.matmul": "bilinear linear",
    "loss.classification": "cross_entropy nll_loss",
    "loss.ctc": "ctc_loss",
    "loss.margin": """
        gaussian_nll_loss linear_cross_entropy multi_margin_loss multilabel_margin_loss
        multilabel_soft_margin_loss poisson_nll_loss triplet_margin_with_distance_loss
    """,
    "loss.regression": """
        binary_cross_entropy binary_cross_entropy_with_logits huber_loss l1_loss mse_loss smooth_l1_loss
    """,
    "loss.similarity": """
        cosine_embedding_loss cosine_similarity hinge_embedding_loss kl_div margin_ranking_loss
        pairwise_distance soft_margin_loss triplet_margin_loss
    """,
    "nn.adaptive_pooling": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
        adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_max_pool2d
        adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices
        fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d
        fractional_max_pool3d_with_indices lp_pool1d lp_pool2d lp_pool3d
    """,
    "nn.attention": "scaled_dot_product_attention",
    "nn.channel_ops": "channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle",
    "nn.conv_transpose": "conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d",
    "nn.convolution": "conv1d conv2d conv3d",
    "nn.pad": "pad",
    "nn.dropout": "dropout dropout1d dropout2d dropout3d",
    "nn.embedding": "embedding one_hot",
    "nn.embedding_bag": "embedding_bag",
    "nn.grid_sample": "affine_grid grid_sample",
    "nn.group_norm": "group_norm rms_norm",
    "nn.interpolate": "interpolate upsample upsample_bilinear upsample_nearest",
    "nn.multihead_attention": "multi_head_attention_forward",
    "nn.normalization": "batch_norm instance_norm layer_norm local_response_norm normalize",
    "nn.pooling": """
        avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices
        max_pool3d max_pool3d_with_indices
    """,
    "nn.unpool_fold": "fold max_unpool1d max_unpool2d max_unpool3d unfold",
}
if not TYPE_CHECKING:
    _, __getattr__, __dir__ = attach_lazy_names(__name__, _HOMES, "adjoint.functions")


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return max(x, 0), element by element.

    Args:
        input: tensor of real numbers.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input of any shape -> the same shape

    Example:
        >>> F.relu(ad.tensor([-1.0, 0.0, 2.0]))
        tensor([0., 0., 2.])
    """
    return input.relu_() if inplace else pointwise.relu(input)


def relu_(input: Tensor) -> Tensor:
    """Write `relu` of the input into it."""
    return relu(input, inplace=True)
