"""Activation functions and dropouts as `torch.nn.functional` spells them: in place, by an underscore or an argument."""

from __future__ import annotations

from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.elementwise import activation, relu_variants
from adjoint.functions.nn import dropout

__all__ = ["alpha_dropout", "elu_", "feature_alpha_dropout", "hardtanh_", "leaky_relu_", "rrelu"]


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place elu."""
    return activation.elu(input, alpha, inplace=True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """In-place hardtanh."""
    return activation.hardtanh(input, min_val, max_val, inplace=True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """In-place leaky_relu."""
    return activation.leaky_relu(input, negative_slope, inplace=True)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Return x where x > 0, else a x; a at random from [lower, upper) for each element in training, else their mean."""
    called = relu_variants.rrelu_ if inplace else relu_variants.rrelu
    return called(input, lower, upper, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Set each element with probability p to the limit of selu at -∞, then scale to mean 0 and variance 1.

    Raises ValueError for a probability outside [0, 1].
    """
    dropout.check_probability(p)
    called = dropout.alpha_dropout_ if inplace else dropout.alpha_dropout
    return called(input, p, training)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Return `alpha_dropout` of whole features: all of (n, c, …) together. Raises ValueError outside [0, 1]."""
    dropout.check_probability(p)
    called = dropout.feature_alpha_dropout_ if inplace else dropout.feature_alpha_dropout
    return called(input, p, training)
