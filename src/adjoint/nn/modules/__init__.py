"""Where programs written for PyTorch may look for the classes of `adjoint.nn`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from adjoint.core.elsewhere import place
from adjoint.nn.modules import module as module
from adjoint.nn.modules import utils as utils

_PUBLIC = """
    activation adaptive channelshuffle container distance flatten fold linear normalization padding pixelshuffle rnn
    sparse transformer upsampling
"""
_PRIVATE = {
    "batchnorm": "adjoint.nn.normalization _BatchNorm=BatchNorm _NormBase=ChannelNorm",
    "conv": "adjoint.nn.convolution adjoint.nn.transposed_convolution _ConvNd=Convolution "
    "_ConvTransposeNd=TransposedConvolution",
    "dropout": "adjoint.nn.dropout _DropoutNd=Dropout",
    "instancenorm": "adjoint.nn.normalization _InstanceNorm=InstanceNorm",
    "loss": "adjoint.nn.reduced _Loss=Loss _WeightedLoss=WeightedLoss",
    "pooling": "adjoint.nn.pooling _MaxPoolNd=MaxPool _AvgPoolNd=AvgPool",
}
place(__name__, dict.fromkeys(_PUBLIC.split(), "adjoint.nn"))
place(__name__, {name: f"adjoint.nn {homes}" for name, homes in _PRIVATE.items()})


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("adjoint.nn"), name)
