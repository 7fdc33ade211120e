"""Weights of layers: a batch normalization folded into them, and their order in memory."""

from __future__ import annotations

import copy
from typing import TypeVar

from adjoint.core.tensor.memory_format import memory_format as MemoryFormat
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.creation import ones_like, zeros_like
from adjoint.nn.layers.conv_transpose import ConvTranspose2d, ConvTranspose3d
from adjoint.nn.layers.convolution import Conv2d, Conv3d
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format", "fuse_conv_bn_eval"]
__all__ += ["fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]
LayerType = TypeVar("LayerType", bound=Module)


def fuse_conv_bn_eval(conv: LayerType, bn: Module, transpose: bool = False) -> LayerType:
    """Return a copy of the convolution that also applies the batch normalization, in evaluation."""
    return _fuse(conv, bn, transpose)


def fuse_linear_bn_eval(linear: LayerType, bn: Module) -> LayerType:
    """Return a copy of the linear layer that also applies the batch normalization, in evaluation.

    Raises: AssertionError for other numbers of features.
    """
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    return _fuse(linear, bn, False)


def _fuse(layer: LayerType, bn: Module, transpose: bool) -> LayerType:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(layer)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        layer.weight, layer.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of a convolution with the batch normalization folded in."""
    bias = zeros_like(bn_rm) if conv_b is None else conv_b
    scale = ones_like(bn_rm) if bn_w is None else bn_w
    shift = zeros_like(bn_rm) if bn_b is None else bn_b
    factor = scale * (bn_rv + bn_eps).rsqrt()
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    new_weight = (conv_w * factor.reshape(shape)).to(conv_w.dtype)
    new_bias = ((bias - bn_rm) * factor + shift).to(bias.dtype)
    return Parameter(new_weight.detach(), conv_w.requires_grad), Parameter(new_bias.detach(), bias.requires_grad)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of a linear layer with the batch normalization folded in."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def convert_conv2d_weight_memory_format(module: LayerType, memory_format: MemoryFormat) -> LayerType:
    """Lay out the weights of all 2-d convolutions in `module` in this memory format, and return it."""
    return _convert_weights(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: LayerType, memory_format: MemoryFormat) -> LayerType:
    """Lay out the weights of all 3-d convolutions in `module` in this memory format, and return it."""
    return _convert_weights(module, memory_format, (Conv3d, ConvTranspose3d))


def _convert_weights(module: LayerType, layout: MemoryFormat, kinds: tuple[type[Module], ...]) -> LayerType:
    for part in module.modules():
        if isinstance(part, kinds):
            weight = part.weight
            weight.data = weight.detach().clone().contiguous(memory_format=layout)
    return module
