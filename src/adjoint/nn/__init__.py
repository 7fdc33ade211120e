"""Neural networks: modules, which hold state, and the functions they call. Each is imported when it is first used.

Modules, in reading order:

- `conv_grad`: Gradients of convolutions with respect to their input and to their weight (`nn.grad`).
- `functional`: The functions that modules are made of, under the names of `torch.nn.functional`.
- `init`: First values of parameters.
- `module`: `Module`: parameters, state, hooks, and how modules are walked.
- `containers`: Containers of modules and of parameters.
- `loss`: Losses as modules.
- `layers`: Layers: modules that compute.
- `utils`: Functions on the parameters of modules, and on sequences: limits for gradients, one vector of all, packing.
"""

from __future__ import annotations

from adjoint.core.runtime.lazy_import import attach_lazy_names

_PARTS = "functional init utils"
_HOMES = {
    "containers.containers": "ModuleDict ModuleList Sequential",
    "containers.parameter_dict": "ParameterDict",
    "containers.parameter_list": "ParameterList",
    "layers.activation": """
        CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish PReLU
        RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus Softshrink Softsign Tanh
        Tanhshrink Threshold
    """,
    "layers.adaptive_pooling": """
        AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d FractionalMaxPool2d FractionalMaxPool3d LPPool1d
        LPPool2d LPPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d
    """,
    "layers.attention": "MultiheadAttention",
    "layers.conv_transpose": "ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "layers.convolution": "Conv1d Conv2d Conv3d Fold Unfold",
    "layers.dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "layers.embedding": "Embedding EmbeddingBag",
    "layers.flatten": "Flatten Unflatten",
    "layers.group_norm": "CrossMapLRN2d GroupNorm LocalResponseNorm RMSNorm",
    "layers.interpolate": """
        AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d ChannelShuffle PixelShuffle PixelUnshuffle
        Upsample UpsamplingBilinear2d UpsamplingNearest2d
    """,
    "layers.lazy": """
        LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d
        LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d
        LazyLinear
    """,
    "layers.linear": "Identity Linear",
    "layers.normalization": """
        BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm
    """,
    "layers.padding": """
        CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d
        ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d
        ZeroPad3d
    """,
    "layers.pooling": "AvgPool1d AvgPool2d AvgPool3d MaxPool1d MaxPool2d MaxPool3d",
    "layers.recurrent": "GRU LSTM RNN RNNBase",
    "layers.recurrent_cells": "GRUCell LSTMCell RNNCell RNNCellBase",
    "layers.similarity": """
        Bilinear CosineEmbeddingLoss CosineSimilarity HingeEmbeddingLoss KLDivLoss MarginRankingLoss
        PairwiseDistance SoftMarginLoss TripletMarginLoss
    """,
    "layers.transformer": """
        Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer
    """,
    "loss.adaptive_softmax": "AdaptiveLogSoftmaxWithLoss",
    "loss.losses": "BCELoss BCEWithLogitsLoss CrossEntropyLoss HuberLoss L1Loss MSELoss NLLLoss SmoothL1Loss",
    "loss.margin": """
        CTCLoss GaussianNLLLoss LinearCrossEntropyLoss LinearCrossEntropyOptions MultiLabelMarginLoss
        MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss2d PoissonNLLLoss TripletMarginWithDistanceLoss
    """,
    "module.hooks": """
        register_module_forward_hook register_module_forward_pre_hook register_module_full_backward_hook
        register_module_full_backward_pre_hook
    """,
    "module.module": "Module",
    "module.parameter": "Buffer Parameter",
    "module.uninitialized": "UninitializedBuffer UninitializedParameter",
}
__all__, __getattr__, __dir__ = attach_lazy_names(__name__, _HOMES, parts=_PARTS)
