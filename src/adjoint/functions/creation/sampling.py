"""Samples of the less usual distributions: PyTorch's own CPU numbers for the same seed."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.recorder import is_evaluated_alone, wrap_unrecorded
from adjoint.core.random import samplers
from adjoint.core.random.generator import Generator, default_generator
from adjoint.core.tensor.tensor import Tensor, method
from adjoint.core.typing import Operand
from adjoint.functions.api.memory_format import memory_order
from adjoint.functions.api.out import write_out
from adjoint.functions.creation.random import fill_with_draws
from adjoint.ops.random import sampling as ops

__all__ = ["_dirichlet_grad", "_sample_dirichlet", "_standard_gamma", "_standard_gamma_grad", "binomial", "multinomial"]
__all__ += ["poisson"]


@method
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Operand = None,
) -> Tensor:
    """Draw positions in each row of weights, each as likely as its weight: (n,) or (m, n) gives (…, num_samples).

    Raises RuntimeError for weights that are negative, not finite or all zero, and for more samples than weights
    without replacement.
    """
    if out is not None:
        if isinstance(out, Tensor) and out.array.dtype != np.int64:
            raise RuntimeError(f"multinomial expects Long tensor out, got: {out.array.dtype}")
        return write_out(out, multinomial, input.detach(), num_samples, replacement, generator=generator)
    kind, shape = input.array.dtype, input.array.shape
    if not 1 <= len(shape) <= 2:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if kind.kind not in "fV":
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {kind}")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if shape[-1] > 2**24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    by_column = memory_order(input) is not None
    source = generator or default_generator
    if is_evaluated_alone(input):
        return wrap_unrecorded(samplers.multinomial(source, input.array, num_samples, bool(replacement), by_column))
    weights = input if input.node is None else input.detach()
    return ops.multinomial(
        weights, count=num_samples, replacement=bool(replacement), by_column=by_column, generator=source
    )


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return Poisson numbers of the rates; the gradient is zero. Raises RuntimeError for a negative rate."""
    _check_floating("poisson", input, narrow=True)
    return ops.poisson(input, generator=generator or default_generator)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw how many of `count` trials succeed with probability `prob`, broadcast; both float32 or both float64.

    Raises: ValueError unless both are floating, RuntimeError for different dtypes.
    """
    for name, x in (("count", count), ("prob", prob)):
        if x.array.dtype.kind not in "fV":
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {x.array.dtype}")
    _check_floating("binomial", count)
    if prob.array.dtype != count.array.dtype:
        raise RuntimeError(f"binomial: count and prob differ in dtype: {count.array.dtype} and {prob.array.dtype}")
    return ops.binomial(count, prob, generator=generator or default_generator)


def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return Gamma numbers of these shapes with scale 1; the gradient follows a number along its quantile."""
    _check_floating("_standard_gamma", input)
    return ops.standard_gamma(input, generator=generator or default_generator)


def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return Dirichlet numbers along the last dimension; the gradient follows them along their quantiles."""
    _check_floating("_sample_dirichlet", input)
    return ops.dirichlet(input, generator=generator or default_generator)


def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """Return the derivative of a gamma number `output` by its shape `input`."""
    return ops.standard_gamma_gradient(input, output)


def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """Return the derivative of a Dirichlet number x by its concentration, divided by 1 - x; `total`: their sum."""
    return ops.dirichlet_gradient(x, alpha, total)


@method
def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers of Cauchy's distribution. Raises RuntimeError unless sigma > 0."""
    kind = self.array.dtype
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    if kind.kind not in "fV":
        raise RuntimeError(
            "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you "
            f"specified {kind}"
        )
    return fill_with_draws(self, "cauchy_", ops.cauchy, generator, median=median, sigma=sigma)


@method
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers whose logarithm is normal. Raises RuntimeError unless std > 0."""
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    _check_floating("log_normal_", self, narrow=True)
    return fill_with_draws(self, "log_normal_", ops.log_normal, generator, mean=mean, std=std)


@method
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with how many trials the first success takes. Raises RuntimeError unless 0 < p < 1."""
    kind = self.array.dtype
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    if kind.kind in "bc" or (kind.kind == "u" and kind.itemsize > 1):
        raise NotImplementedError(f"geometric_ is not implemented for {kind}")
    return fill_with_draws(self, "geometric_", ops.geometric, generator, p=p)


def _check_floating(name: str, x: Tensor, narrow: bool = False) -> None:
    kind = x.array.dtype
    if kind.kind not in "fV" or (kind.itemsize == 2 and not narrow):
        raise NotImplementedError(f"{name} is not implemented for {kind}")
