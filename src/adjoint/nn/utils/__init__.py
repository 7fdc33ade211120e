"""Functions on the parameters of modules, and on sequences: limits for gradients, one vector of all, packing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjoint.core.elsewhere import place
from adjoint.core.later import later
from adjoint.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from adjoint.nn.utils.weight_norm import remove_weight_norm, weight_norm

if TYPE_CHECKING:
    from adjoint.nn.utils import clip_grad, fusion, init, parametrizations, parametrize, prune, rnn, stateless
    from adjoint.nn.utils.clip_grad import (
        clip_grad_norm,
        clip_grad_norm_,
        clip_grad_value_,
        clip_grads_with_norm_,
        get_total_norm,
    )
    from adjoint.nn.utils.fusion import (
        fuse_conv_bn_eval,
        fuse_conv_bn_weights,
        fuse_linear_bn_eval,
        fuse_linear_bn_weights,
    )
    from adjoint.nn.utils.init import skip_init
    from adjoint.nn.utils.memory_format import convert_conv2d_weight_memory_format, convert_conv3d_weight_memory_format
    from adjoint.nn.utils.vector import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad",
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "fusion",
    "get_total_norm",
    "init",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "prune",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]
_PARTS = "parametrizations parametrize prune rnn stateless"
_HOMES = {
    "clip_grad": "clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm",
    "fusion": "fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights",
    "init": "skip_init",
    "memory_format": "convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format",
    "vector": "parameters_to_vector vector_to_parameters",
}
if not TYPE_CHECKING:
    _, __getattr__, __dir__ = later(__name__, _HOMES, parts=_PARTS)

place(
    __name__, {"_per_sample_grad": "adjoint.func.per_sample", "convert_parameters": "adjoint.nn.utils.vector"}
)
