"""Weights of convolutions in another order in memory, that of the channels last."""

from __future__ import annotations

from typing import Any

from adjoint.nn.layers.conv_transpose import ConvTranspose2d, ConvTranspose3d
from adjoint.nn.layers.convolution import Conv2d, Conv3d
from adjoint.nn.module.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """`module`, in which the weights of all 2-dimensional convolutions lie as `memory_format` says; values stay."""
    return _convert_weights(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """`module`, in which the weights of all 3-dimensional convolutions lie as `memory_format` says; values stay."""
    return _convert_weights(module, memory_format, (Conv3d, ConvTranspose3d))


def _convert_weights(module: Any, memory_format: Any, kinds: tuple[type[Module], ...]) -> Any:
    for part in module.modules():
        if isinstance(part, kinds):
            weight: Any = part._parameters["weight"]
            weight.data = weight.detach().clone().contiguous(memory_format=memory_format)
    return module
