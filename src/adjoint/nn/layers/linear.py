"""Layers made of a matrix product."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.creation.creation import empty
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

__all__ = ["Identity", "Linear"]


class Linear(Module):
    """x Wᵀ + b: (…, in_features) to (…, out_features); W and b uniform within ±1/√in_features at first."""

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, dtype=dtype, device=device))
        self.register_parameter("bias", Parameter(empty(out_features, dtype=dtype, device=device)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        uniform_by_fan_in(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


def uniform_by_fan_in(weight: Tensor, bias: Tensor | None) -> None:
    """Fill both uniformly within ±1/√fan_in of the weight. Source: PyTorch, whose numbers these are."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        fan_in, _ = init._calculate_fan_in_and_fan_out(weight)
        bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
        init.uniform_(bias, -bound, bound)


class Identity(Module):
    """Returns its input; takes any arguments, and ignores them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input
