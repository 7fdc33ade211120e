"""The functions that modules are made of, under the names of `torch.nn.functional`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.core.runtime.lazy_import import attach_lazy_names
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.elementwise import pointwise

if TYPE_CHECKING:
    from adjoint.functions.elementwise.activation import *
    from adjoint.functions.elementwise.gated_activation import *
    from adjoint.functions.elementwise.inplace_activation import alpha_dropout as alpha_dropout
    from adjoint.functions.elementwise.inplace_activation import elu_ as elu_
    from adjoint.functions.elementwise.inplace_activation import feature_alpha_dropout as feature_alpha_dropout
    from adjoint.functions.elementwise.inplace_activation import hardtanh_ as hardtanh_
    from adjoint.functions.elementwise.inplace_activation import leaky_relu_ as leaky_relu_
    from adjoint.functions.elementwise.inplace_activation import rrelu as rrelu
    from adjoint.functions.elementwise.pointwise import sigmoid as sigmoid
    from adjoint.functions.elementwise.pointwise import tanh as tanh
    from adjoint.functions.elementwise.relu_variants import celu_ as celu_
    from adjoint.functions.elementwise.relu_variants import rrelu_ as rrelu_
    from adjoint.functions.elementwise.relu_variants import selu_ as selu_
    from adjoint.functions.elementwise.relu_variants import threshold as threshold
    from adjoint.functions.elementwise.relu_variants import threshold_ as threshold_
    from adjoint.functions.linalg.distance import pdist as pdist
    from adjoint.functions.linalg.matmul import bilinear as bilinear
    from adjoint.functions.linalg.matmul import linear as linear
    from adjoint.functions.loss.classification import *
    from adjoint.functions.loss.ctc import *
    from adjoint.functions.loss.margin import *
    from adjoint.functions.loss.regression import *
    from adjoint.functions.loss.similarity import *
    from adjoint.functions.nn.adaptive_pooling import *
    from adjoint.functions.nn.attention import *
    from adjoint.functions.nn.channel_ops import *
    from adjoint.functions.nn.conv_transpose import *
    from adjoint.functions.nn.convolution import *
    from adjoint.functions.nn.dropout import dropout as dropout
    from adjoint.functions.nn.dropout import dropout1d as dropout1d
    from adjoint.functions.nn.dropout import dropout2d as dropout2d
    from adjoint.functions.nn.dropout import dropout3d as dropout3d
    from adjoint.functions.nn.embedding import embedding as embedding
    from adjoint.functions.nn.embedding import one_hot as one_hot
    from adjoint.functions.nn.embedding_bag import *
    from adjoint.functions.nn.grid_sample import *
    from adjoint.functions.nn.group_norm import *
    from adjoint.functions.nn.interpolate import *
    from adjoint.functions.nn.multihead_attention import multi_head_attention_forward as multi_head_attention_forward
    from adjoint.functions.nn.normalization import *
    from adjoint.functions.nn.normalization import local_response_norm as local_response_norm
    from adjoint.functions.nn.normalization import normalize as normalize
    from adjoint.functions.nn.pad import *
    from adjoint.functions.nn.pooling import *
    from adjoint.functions.nn.unpool_fold import *

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
    __all__, __getattr__, __dir__ = attach_lazy_names(__name__, _HOMES, "adjoint.functions")
    __all__ += ["relu", "relu_"]
    __all__.sort()


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
