"""Functions of the top level whose arguments PyTorch orders otherwise than in `nn.functional`; and `detach`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint.core.tensor import tensor as tensors
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.nn import embedding as tables
from adjoint.functions.nn import group_norm as normalizations

__all__ = ["detach", "embedding", "group_norm", "rms_norm"]


def detach(input: Tensor) -> Tensor:
    """Return a tensor over the same memory, without history."""
    return tensors.detach(input)


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """Call `nn.functional.embedding`, with the weight (V, D) first; a negative `padding_idx` means none."""
    padding: Any = padding_idx if padding_idx >= 0 else None
    return tables.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Call `nn.functional.group_norm`."""
    return normalizations.group_norm(input, num_groups, weight, bias, eps)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Call `nn.functional.rms_norm`."""
    return normalizations.rms_norm(input, normalized_shape, weight, eps)
