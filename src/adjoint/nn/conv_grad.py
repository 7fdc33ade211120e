"""The gradients of convolutions by themselves: what reaches the input, and what reaches the weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.autograd.backward import grad
from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.creation import zeros
from adjoint.functions.nn.convolution import conv1d, conv2d, conv3d

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def conv1d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of the input, of shape `input_size`, of a `conv1d` whose result has the gradient `grad_output`."""
    return _grad_of_input(conv1d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of the weight, of shape `weight_size`, of a `conv1d` whose result has the gradient `grad_output`."""
    return _grad_of_weight(conv1d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of the input, of shape `input_size`, of a `conv2d` whose result has the gradient `grad_output`."""
    return _grad_of_input(conv2d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of the weight, of shape `weight_size`, of a `conv2d` whose result has the gradient `grad_output`."""
    return _grad_of_weight(conv2d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Any, weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of the input, of shape `input_size`, of a `conv3d` whose result has the gradient `grad_output`."""
    return _grad_of_input(conv3d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor, weight_size: Any, grad_output: Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """The gradient of the weight, of shape `weight_size`, of a `conv3d` whose result has the gradient `grad_output`."""
    return _grad_of_weight(conv3d, input, weight_size, grad_output, stride, padding, dilation, groups)


def _grad_of_input(conv: Callable[..., Any], size: Any, weight: Any, grad_output: Any, *settings: Any) -> Any:
    place = zeros(tuple(size), dtype=weight.dtype).requires_grad_()
    return _differentiate_at(lambda: conv(place, weight, None, *settings), place, grad_output)


def _grad_of_weight(conv: Callable[..., Any], input: Any, size: Any, grad_output: Any, *settings: Any) -> Any:
    place = zeros(tuple(size), dtype=input.dtype).requires_grad_()
    return _differentiate_at(lambda: conv(input, place, None, *settings), place, grad_output)


def _differentiate_at(product: Callable[[], Any], place: Any, grad_output: Any) -> Any:
    """The gradient at `place`, of which the product is linear; itself recorded if recording is on."""
    again = mode.recording
    with enable_grad():
        out = product()
    return grad(out, place, grad_output, create_graph=again)[0]
