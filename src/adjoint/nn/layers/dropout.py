"""Dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from adjoint.core.tensor.tensor import Tensor
from adjoint.nn import functional as F
from adjoint.nn.module.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class Dropout(Module):
    """Dropout layer: in training each element becomes 0 with probability p.

    The layer divides the other elements by 1 - p, so the expected value stays. After `eval()` it is the identity.

    Args:
        p: probability of a zero. Default: 0.5.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input of any shape -> the same shape

    Raises: ValueError for a `p` outside [0, 1].

    Source: Srivastava et al., Dropout, 2014.

    Example:
        >>> _ = ad.manual_seed(0)
        >>> layer = nn.Dropout(p=0.5)
        >>> layer(ad.ones(5))
        tensor([0., 0., 2., 0., 0.])
        >>> layer.eval()(ad.ones(5))
        tensor([1., 1., 1., 1., 1.])
    """

    function: ClassVar[Callable[..., Tensor]] = staticmethod(F.dropout)

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return type(self).function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout):
    """Dropout layer for sequences (N, C, L) or (C, L): in training each channel becomes 0 with probability p."""

    function = staticmethod(F.dropout1d)


class Dropout2d(Dropout):
    """Dropout layer for images: in training each channel of each sample becomes 0 with probability p.

    The layer divides the other channels by 1 - p. After `eval()` it is the identity.

    Args:
        p: probability of a zero channel. Default: 0.5.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input (N, C, H, W) -> the same shape

    Raises: ValueError for a `p` outside [0, 1].

    Source: Tompson et al., Efficient Object Localization Using Convolutional Networks, 2015.

    Example:
        >>> _ = ad.manual_seed(0)
        >>> nn.Dropout2d(p=0.5)(ad.ones(1, 3, 1, 2)).tolist()
        [[[[0.0, 0.0]], [[0.0, 0.0]], [[2.0, 2.0]]]]
    """

    function = staticmethod(F.dropout2d)


class Dropout3d(Dropout):
    """Dropout layer for volumes (N, C, D, H, W) or (C, D, H, W): in training a channel becomes 0 with probability p."""

    function = staticmethod(F.dropout3d)


class AlphaDropout(Dropout):
    """Alpha dropout: in training each element becomes SELU's lower limit with probability p; mean and variance stay.

    Shapes:
        input of any shape -> the same shape
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(Dropout):
    """Alpha dropout of whole channels of (N, C, …)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
