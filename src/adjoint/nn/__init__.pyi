"""Made by `python3 dev.py stubs` from __init__.py and compat/namespace.py: not to be edited."""

from typing import Any

from adjoint.compat.stubs import annotations as common_types
from adjoint.compat.stubs.nn import internals as _reduction
from adjoint.compat.stubs.nn.parallel import Container as Container
from adjoint.compat.stubs.nn.parallel import DataParallel as DataParallel
from adjoint.distributed.algorithms.sync_batch_norm import SyncBatchNorm as SyncBatchNorm
from adjoint.nn import conv_grad as grad
from adjoint.nn import functional as functional
from adjoint.nn import init as init
from adjoint.nn import utils as utils
from adjoint.nn.containers.containers import *
from adjoint.nn.containers.parameter_dict import *
from adjoint.nn.containers.parameter_list import *
from adjoint.nn.layers.activation import *
from adjoint.nn.layers.adaptive_pooling import *
from adjoint.nn.layers.attention import *
from adjoint.nn.layers.conv_transpose import *
from adjoint.nn.layers.convolution import *
from adjoint.nn.layers.dropout import *
from adjoint.nn.layers.embedding import *
from adjoint.nn.layers.flatten import *
from adjoint.nn.layers.group_norm import *
from adjoint.nn.layers.interpolate import *
from adjoint.nn.layers.lazy import *
from adjoint.nn.layers.linear import *
from adjoint.nn.layers.normalization import *
from adjoint.nn.layers.padding import *
from adjoint.nn.layers.pooling import *
from adjoint.nn.layers.recurrent import *
from adjoint.nn.layers.recurrent_cells import *
from adjoint.nn.layers.similarity import *
from adjoint.nn.layers.transformer import *
from adjoint.nn.loss.adaptive_softmax import *
from adjoint.nn.loss.losses import *
from adjoint.nn.loss.margin import *
from adjoint.nn.module.hooks import register_module_forward_hook as register_module_forward_hook
from adjoint.nn.module.hooks import register_module_forward_pre_hook as register_module_forward_pre_hook
from adjoint.nn.module.hooks import register_module_full_backward_hook as register_module_full_backward_hook
from adjoint.nn.module.hooks import register_module_full_backward_pre_hook as register_module_full_backward_pre_hook
from adjoint.nn.module.module import *
from adjoint.nn.module.parameter import Buffer as Buffer
from adjoint.nn.module.parameter import Parameter as Parameter
from adjoint.nn.module.uninitialized import UninitializedBuffer as UninitializedBuffer
from adjoint.nn.module.uninitialized import UninitializedParameter as UninitializedParameter

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveLogSoftmaxWithLoss",
    "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AlphaDropout", "AvgPool1d", "AvgPool2d",
    "AvgPool3d", "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Bilinear",
    "Buffer", "CELU", "CTCLoss", "ChannelShuffle", "CircularPad1d", "CircularPad2d", "CircularPad3d",
    "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "Container", "Conv1d", "Conv2d", "Conv3d",
    "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "CosineEmbeddingLoss", "CosineSimilarity",
    "CrossEntropyLoss", "CrossMapLRN2d", "DataParallel", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "ELU",
    "Embedding", "EmbeddingBag", "FeatureAlphaDropout", "Flatten", "Fold", "FractionalMaxPool2d",
    "FractionalMaxPool3d", "GELU", "GLU", "GRU", "GRUCell", "GaussianNLLLoss", "GroupNorm", "Hardshrink",
    "Hardsigmoid", "Hardswish", "Hardtanh", "HingeEmbeddingLoss", "HuberLoss", "Identity", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "KLDivLoss", "L1Loss", "LPPool1d", "LPPool2d", "LPPool3d", "LSTM",
    "LSTMCell", "LayerNorm", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear", "LeakyReLU", "Linear", "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions", "LocalResponseNorm", "LogSigmoid", "LogSoftmax", "MSELoss", "MarginRankingLoss",
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "Mish", "Module",
    "ModuleDict", "ModuleList", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss",
    "MultiheadAttention", "NLLLoss", "NLLLoss2d", "PReLU", "PairwiseDistance", "Parameter", "ParameterDict",
    "ParameterList", "PixelShuffle", "PixelUnshuffle", "PoissonNLLLoss", "RMSNorm", "RNN", "RNNBase", "RNNCell",
    "RNNCellBase", "RReLU", "ReLU", "ReLU6", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d",
    "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "SELU", "Sequential", "SiLU", "Sigmoid",
    "SmoothL1Loss", "SoftMarginLoss", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign",
    "SyncBatchNorm", "Tanh", "Tanhshrink", "Threshold", "Transformer", "TransformerDecoder",
    "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss", "Unflatten", "Unfold", "UninitializedBuffer", "UninitializedParameter",
    "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
    "_reduction", "attention", "common_types", "functional", "grad", "init", "intrinsic", "modules", "parallel",
    "parameter", "quantized", "register_module_forward_hook", "register_module_forward_pre_hook",
    "register_module_full_backward_hook", "register_module_full_backward_pre_hook", "utils"
]

attention: Any
intrinsic: Any
modules: Any
parallel: Any
parameter: Any
quantized: Any
