"""The functions that modules are made of, under the names of `torch.nn.functional`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.core.runtime.lazy_import import attach_lazy_names
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.api.lazy_table import NN_FUNCTIONS as _HOMES
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
