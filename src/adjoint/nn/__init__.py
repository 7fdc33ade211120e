"""Neural networks: modules, which hold state, and the functions they call. Each is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.core.elsewhere import place
from adjoint.core.later import later

if TYPE_CHECKING:
    from adjoint.nn import common_types as common_types
    from adjoint.nn import functional as functional
    from adjoint.nn import grad as grad
    from adjoint.nn import init as init
    from adjoint.nn import modules as modules
    from adjoint.nn import utils as utils
    from adjoint.nn.activation import *
    from adjoint.nn.adaptive_pooling import *
    from adjoint.nn.adaptive_softmax import *
    from adjoint.nn.attention import *
    from adjoint.nn.comparing import *
    from adjoint.nn.containers import *
    from adjoint.nn.convolution import *
    from adjoint.nn.dropout import *
    from adjoint.nn.embedding import *
    from adjoint.nn.group_normalization import *
    from adjoint.nn.hooks import (
        register_module_forward_hook as register_module_forward_hook,
    )
    from adjoint.nn.hooks import (
        register_module_forward_pre_hook as register_module_forward_pre_hook,
    )
    from adjoint.nn.hooks import (
        register_module_full_backward_hook as register_module_full_backward_hook,
    )
    from adjoint.nn.hooks import (
        register_module_full_backward_pre_hook as register_module_full_backward_pre_hook,
    )
    from adjoint.nn.lazy import *
    from adjoint.nn.linear import *
    from adjoint.nn.loss import *
    from adjoint.nn.margin_loss import *
    from adjoint.nn.module import *
    from adjoint.nn.normalization import *
    from adjoint.nn.padding import *
    from adjoint.nn.parallel import *
    from adjoint.nn.parameter import Buffer as Buffer
    from adjoint.nn.parameter import Parameter as Parameter
    from adjoint.nn.parameter_dict import *
    from adjoint.nn.parameter_list import *
    from adjoint.nn.pooling import *
    from adjoint.nn.recurrent import *
    from adjoint.nn.recurrent_cells import *
    from adjoint.nn.resampling import *
    from adjoint.nn.shape import *
    from adjoint.nn.transformer import *
    from adjoint.nn.transposed_convolution import *
    from adjoint.nn.uninitialized import UninitializedBuffer as UninitializedBuffer
    from adjoint.nn.uninitialized import UninitializedParameter as UninitializedParameter

_PARTS = "common_types functional grad init modules utils"
_HOMES = {
    "activation": """
        CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish
        PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus Softshrink Softsign
        Tanh Tanhshrink Threshold
    """,
    "adaptive_pooling": """
        AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d FractionalMaxPool2d FractionalMaxPool3d
        LPPool1d LPPool2d LPPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d
    """,
    "adaptive_softmax": "AdaptiveLogSoftmaxWithLoss",
    "attention": "MultiheadAttention",
    "comparing": """
        Bilinear CosineEmbeddingLoss CosineSimilarity HingeEmbeddingLoss KLDivLoss MarginRankingLoss
        PairwiseDistance SoftMarginLoss TripletMarginLoss
    """,
    "containers": "ModuleDict ModuleList Sequential",
    "convolution": "Conv1d Conv2d Conv3d Fold Unfold",
    "dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "embedding": "Embedding EmbeddingBag",
    "group_normalization": "CrossMapLRN2d GroupNorm LocalResponseNorm RMSNorm",
    "hooks": """
        register_module_forward_hook register_module_forward_pre_hook register_module_full_backward_hook
        register_module_full_backward_pre_hook
    """,
    "lazy": """
        LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d
        LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d
        LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear
    """,
    "linear": "Identity Linear",
    "loss": "BCELoss BCEWithLogitsLoss CrossEntropyLoss HuberLoss L1Loss MSELoss NLLLoss SmoothL1Loss",
    "margin_loss": """
        CTCLoss GaussianNLLLoss LinearCrossEntropyLoss LinearCrossEntropyOptions MultiLabelMarginLoss
        MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss2d PoissonNLLLoss TripletMarginWithDistanceLoss
    """,
    "module": "Module",
    "normalization": "BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm",
    "padding": """
        CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d
        ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d
        ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d
    """,
    "parallel": "Container DataParallel SyncBatchNorm",
    "parameter": "Buffer Parameter",
    "parameter_dict": "ParameterDict",
    "parameter_list": "ParameterList",
    "pooling": "AvgPool1d AvgPool2d AvgPool3d MaxPool1d MaxPool2d MaxPool3d",
    "recurrent": "GRU LSTM RNN RNNBase",
    "recurrent_cells": "GRUCell LSTMCell RNNCell RNNCellBase",
    "resampling": """
        AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d ChannelShuffle PixelShuffle PixelUnshuffle
        Upsample UpsamplingBilinear2d UpsamplingNearest2d
    """,
    "shape": "Flatten Unflatten",
    "transformer": """
        Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder
        TransformerEncoderLayer
    """,
    "transposed_convolution": "ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "uninitialized": "UninitializedBuffer UninitializedParameter",
}
if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = later(__name__, _HOMES, parts=_PARTS)

place(__name__, {}, dict.fromkeys(("intrinsic", "quantized"), "there are no quantised numbers"))
