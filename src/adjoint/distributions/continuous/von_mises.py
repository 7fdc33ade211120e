"""The von Mises distribution of angles."""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint.autograd.grad_mode import no_grad
from adjoint.core.dtype.dtype import float64
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.distributions import constraints
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.parameters import formula, lazy_property
from adjoint.functions.creation import creation, random
from adjoint.functions.elementwise.pointwise import where

# Of I₀ and I₁: polynomials for x < 3.75 in (x / 3.75)², and beyond in 3.75 / x (Abramowitz and Stegun, 9.8.1 to 9.8.4).
_BESSEL_COEFFICIENTS_BELOW_3_75 = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.02658733, 0.00301532, 0.00032411),
)
_BESSEL_COEFFICIENTS_ABOVE_3_75 = (
    (0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706, 0.02635537, -0.01647633, 0.00392377),
    (0.39894228, -0.03988024, -0.00362018, 0.00163801, -0.01031555, 0.02282967, -0.02895312, 0.01787654, -0.00420059),
)


class VonMises(Distribution):
    """Von Mises distribution of angles: p(x) = exp(κ cos(x - μ)) / 2π I₀(κ), μ = `loc`, κ = `concentration`."""

    arg_constraints = constraints.of(loc=constraints.real, concentration=constraints.positive)
    support = constraints.real
    has_rsample = False
    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self._init_elementwise(validate_args, loc=loc, concentration=concentration)

    mean = formula("μ.", lambda p: p.loc)
    mode = mean

    @lazy_property
    def variance(self) -> Tensor:
        """1 - I₁(κ) / I₀(κ), of the direction."""
        return 1 - (_log_bessel(self.concentration, 1) - _log_bessel(self.concentration, 0)).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        """κ cos(x - μ) - log 2π - log I₀(κ)."""
        angle = self.concentration * (self._check_value(value) - self.loc).cos()
        return angle - math.log(2 * math.pi) - _log_bessel(self.concentration, 0)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        """The parameter of the wrapped Cauchy distribution from which angles are proposed."""
        k = self.concentration.to(float64)
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples in float64, by rejection from a wrapped Cauchy distribution (Best and Fisher, 1979)."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            loc, k, r = self.loc.to(float64), self.concentration.to(float64), self._proposal_r
            x = creation.zeros(shape, dtype=float64)
            done = creation.zeros(shape, dtype="bool")
            while not done.all():
                u1, u2, u3 = random.rand(3, *shape, dtype=float64).unbind()
                z = (math.pi * u1).cos()
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                x = where(accept, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)


def _log_bessel(x: Tensor, order: int) -> Tensor:
    """log I₀(x) or log I₁(x)."""
    small = _polynomial(_BESSEL_COEFFICIENTS_BELOW_3_75[order], (x / 3.75) ** 2)
    small = (x.abs() * small if order else small).log()
    large = x - 0.5 * x.log() + _polynomial(_BESSEL_COEFFICIENTS_ABOVE_3_75[order], 3.75 / x).log()
    return where(x < 3.75, small, large)


def _polynomial(coefficients: tuple[float, ...], y: Tensor) -> Tensor:
    """c₀ + c₁y + c₂y² + …, by Horner's rule."""
    total: Operand = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total = coefficient + y * total
    return total
