"""Rectifiers under the names that they have beside the modules' functions: in place, and with slopes at random."""

from __future__ import annotations

from adjoint.core.dtype.dtype_info import check_range
from adjoint.core.random.generator import Generator, default_generator
from adjoint.core.tensor.tensor import Tensor
from adjoint.functions.api.compute_dtype import in_float32
from adjoint.functions.api.publish import in_place, public, rename_node
from adjoint.functions.elementwise import activation, gated_activation
from adjoint.ops.elementwise import arithmetic, comparison, float_functions, select
from adjoint.ops.random import draws

__all__ = ["celu", "celu_", "hardshrink", "prelu", "rrelu", "rrelu_", "selu_", "threshold", "threshold_"]

celu, hardshrink, prelu = gated_activation.celu, gated_activation.hardshrink, gated_activation.prelu
public()(hardshrink)
public()(prelu)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place celu."""
    return gated_activation.celu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """In-place selu."""
    return activation.selu(input, inplace=True)


@public(method=False)
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return x where x > threshold, else `value`.

    Args:
        input: tensor of real numbers.
        threshold: number above which x stays.
        value: number in place of the others.
        inplace: True to write the result into the input. Default: False.

    Shapes:
        input of any shape -> the same shape

    Example:
        >>> F.threshold(ad.tensor([0.5, 2.0]), 1.0, -1.0)
        tensor([-1.,  2.])
    """
    check_range(threshold, input.array.dtype)
    check_range(value, input.array.dtype)
    if inplace:
        return threshold_(input, threshold, value)
    return float_functions.threshold(input, threshold=threshold, value=value)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """In-place threshold."""
    return in_place(float_functions.threshold, "threshold_")(input, threshold=threshold, value=value)


@in_float32
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Return x where x > 0, else a x; a at random from [lower, upper) for each element in training, else their mean.

    Raises RuntimeError for a lower bound above the upper one. Source: Xu et al., 2015.
    """
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        below = arithmetic.mul(input, (lower + upper) / 2)
        return rename_node(select.where(comparison.gt(input, 0.0), input, below), "RreluWithNoiseBackward0")
    source = default_generator if generator is None else generator
    slopes = draws.rrelu_slopes(input.detach(), low=lower, high=upper, generator=source)
    return rename_node(arithmetic.mul(input, slopes), "RreluWithNoiseBackward0")


def rrelu_(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """In-place rrelu."""
    return in_place(lambda x: rrelu(select.copy(x), lower, upper, training, generator), "rrelu_")(input)
