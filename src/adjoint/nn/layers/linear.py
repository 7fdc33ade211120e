"""Layers made of a matrix product."""

from __future__ import annotations

import math
from typing import Any

from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike
from adjoint.functions.creation.creation import empty
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

__all__ = ["Identity", "Linear"]


class Linear(Module):
    """Fully connected layer: y = x Wᵀ + b.

    The initial weight and bias are uniform in ±1/√in_features.

    Args:
        in_features: size of the last input dimension.
        out_features: size of the last output dimension.
        bias: True to add a learned bias. Default: True.
        device, dtype: placement ("cpu", or "meta" for no values) and dtype of the parameters. Default: None.

    Attributes:
        weight: Parameter, W, shape (out_features, in_features).
        bias: Parameter or None, b, shape (out_features,).

    Shapes:
        input (…, in_features) -> (…, out_features)

    Example:
        >>> layer = nn.Linear(3, 2)
        >>> layer(ad.ones(4, 3)).shape
        adjoint.Size([4, 2])
        >>> layer.weight.shape
        adjoint.Size([2, 3])
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: DeviceLike = None, dtype: DtypeLike = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, dtype=dtype, device=device))
        self.register_parameter("bias", Parameter(empty(out_features, dtype=dtype, device=device)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        init_uniform_by_fan_in(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        own = self._parameters
        weight = own.get("weight")
        traced = nondefault.count and mode.interpreter is not None
        if weight is not None and "bias" in own and not traced:  # an attribute takes 0.6 µs to find there
            return F.linear(input, weight, own["bias"])
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


def init_uniform_by_fan_in(weight: Tensor, bias: Tensor | None) -> None:
    """Fill both uniformly within ±1/√fan_in of the weight. Source: PyTorch, whose numbers these are."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    if bias is not None:
        fan_in, _ = init._calculate_fan_in_and_fan_out(weight)
        bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
        init.uniform_(bias, -bound, bound)


class Identity(Module):
    """Identity layer: it returns its input unchanged.

    The constructor accepts any arguments and ignores them. So `Identity` can replace any other layer.

    Shapes:
        input of any shape -> the same tensor

    Example:
        >>> x = ad.tensor([1.0, 2.0])
        >>> nn.Identity(20, bias=False)(x) is x
        True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input
