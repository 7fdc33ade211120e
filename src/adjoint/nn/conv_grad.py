"""Gradients of convolutions with respect to their input and to their weight (`nn.grad`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from adjoint.autograd.backward import grad
from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.runtime.mode import mode
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.functions.creation.creation import zeros
from adjoint.functions.nn.convolution import conv1d, conv2d, conv3d
from adjoint.functions.nn.per_rank import per_rank

if TYPE_CHECKING:
    from adjoint.core.tensor.size import Size

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: conv1d, 2: conv2d, 3: conv3d}


def _conv_input(
    rank: int,
    input_size: tuple[int, ...] | Size,
    weight: Tensor,
    grad_output: Tensor,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of the input, of shape `input_size`, of a `conv{rank}d` with the gradient `grad_output`."""
    input = zeros(tuple(input_size), dtype=weight.dtype).requires_grad_()
    return _conv_gradient(rank, input, weight, (stride, padding, dilation, groups), input, grad_output)


def _conv_weight(
    rank: int,
    input: Tensor,
    weight_size: Size,
    grad_output: Tensor,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of the weight, of shape `weight_size`, of a `conv{rank}d` with the gradient `grad_output`."""
    weight = zeros(tuple(weight_size), dtype=input.dtype).requires_grad_()
    return _conv_gradient(rank, input, weight, (stride, padding, dilation, groups), weight, grad_output)


conv1d_input, conv2d_input, conv3d_input = per_rank(_conv_input, "conv{rank}d_input")
conv1d_weight, conv2d_weight, conv3d_weight = per_rank(_conv_weight, "conv{rank}d_weight")


def _conv_gradient(
    rank: int, input: Tensor, weight: Tensor, settings: tuple[int, ...], place: Tensor, grad_output: Tensor
) -> Operand:
    """Return the gradient at `place`, the input or the weight; itself recorded if recording is on."""
    recording = mode.recording
    with enable_grad():
        out = CONVOLUTIONS[rank](input, weight, None, *settings)
    return grad(out, place, grad_output, create_graph=recording)[0]
