"""Divergences between distributions of different families."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from adjoint.core.typing import Function, Operand
from adjoint.distributions.continuous.continuous_bernoulli import ContinuousBernoulli
from adjoint.distributions.continuous.dirichlet import Beta
from adjoint.distributions.continuous.exponential import Exponential, Laplace, Pareto
from adjoint.distributions.continuous.gamma import Gamma
from adjoint.distributions.continuous.normal import Normal
from adjoint.distributions.continuous.uniform import Gumbel, Uniform
from adjoint.distributions.discrete.bernoulli import Bernoulli
from adjoint.distributions.discrete.binomial import Binomial, Poisson
from adjoint.distributions.kl.registry import register_kl
from adjoint.distributions.parameters import EULER_GAMMA
from adjoint.functions.creation import creation
from adjoint.functions.elementwise.float_functions import xlogy
from adjoint.functions.elementwise.pointwise import erf, where

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor

# Of the first, the parameter whose shape the result has, and those in whose support it is not contained.
_INFINITE_PAIRS: tuple[tuple[type, str, tuple[type, ...]], ...] = (
    (Beta, "concentration1", (Pareto,)),
    (ContinuousBernoulli, "probs", (Pareto,)),
    (Exponential, "rate", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gamma, "concentration", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, "scale", (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, "rate", (Bernoulli, Binomial)),
)


def _make_infinite_kl(parameter: str) -> Function:
    """∞ in the shape of this parameter of p."""
    return lambda p, q: creation.full_like(getattr(p, parameter), math.inf)


for _p, _parameter, _others in _INFINITE_PAIRS:
    for _q in _others:
        register_kl(_p, _q)(_make_infinite_kl(_parameter))


def _cross_entropy_to_normal(mean: Operand, variance: Operand, q: Operand) -> Tensor:
    """-E[log q(x)] for a normal q, of any x with this mean and variance."""
    square = q.scale.pow(2)
    return 0.5 * (2 * math.pi * square).log() + (variance + (mean - q.loc).pow(2)) / (2 * square)


def _cross_entropy_to_gamma(mean: Operand, mean_log: Operand, q: Operand) -> Tensor:
    """-E[log q(x)] for a gamma q, of any x with this E[x] and E[log x]."""
    constant = q.concentration.lgamma() - q.concentration * q.rate.log()
    return constant - (q.concentration - 1) * mean_log + q.rate * mean


# -H(p) - E[log q(x)] of a normal q, and of an exponential one
for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    register_kl(_p, Normal)(lambda p, q: -p.entropy() + _cross_entropy_to_normal(p.mean, p.variance, q))
for _p in (Beta, ContinuousBernoulli, Gamma):
    register_kl(_p, Exponential)(lambda p, q: -p.entropy() - q.rate.log() + q.rate * p.mean)


@register_kl(Bernoulli, Poisson)
def _(p: Operand, q: Operand) -> Tensor:
    """-H(p) - P log λ + λ."""
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _(p: Operand, q: Operand) -> Tensor:
    """-H(p) - E[x] logit Q - log (1 - Q)C(Q)."""
    return -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


@register_kl(Beta, Gamma)
def _(p: Operand, q: Operand) -> Tensor:
    """-H(p) - E[log q(x)], where E[log x] = ψ(a) - ψ(a + b)."""
    mean_log = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return -p.entropy() + _cross_entropy_to_gamma(p.mean, mean_log, q)


@register_kl(Beta, Uniform)
def _(p: Operand, q: Operand) -> Tensor:
    """-H(p) + log(high - low); ∞ where q's interval does not hold [0, 1]."""
    return where((q.low > 0.0) | (q.high < 1.0), math.inf, -p.entropy() + (q.high - q.low).log())


@register_kl(ContinuousBernoulli, Uniform)
def _(p: Operand, q: Operand) -> Tensor:
    """-H(p) + log(high - low); ∞ where an end of q's interval is not outside of [0, 1]."""
    return where((q.low >= 0.0) | (q.high <= 1.0), math.inf, -p.entropy() + (q.high - q.low).log())


@register_kl(Exponential, Gamma)
def _(p: Operand, q: Operand) -> Tensor:
    """-α log r + r + log Γ(α) + αγ - 1 - γ, where r = β/λ."""
    ratio = q.rate / p.rate
    a = q.concentration
    return -a * ratio.log() + ratio + a.lgamma() + a * EULER_GAMMA - (1 + EULER_GAMMA)


@register_kl(Exponential, Gumbel)
def _(p: Operand, q: Operand) -> Tensor:
    """log r - 1 - m + eᵐ r/(r + 1) + 1/r, where r = λβ and m = μ/β."""
    product, place = p.rate * q.scale, q.loc / q.scale
    return product.log() - 1 - place + place.exp() * product / (product + 1) + product.reciprocal()


@register_kl(Gamma, Gumbel)
def _(p: Operand, q: Operand) -> Tensor:
    """(α - 1)ψ(α) - log Γ(α) - α + log r + α/r + eᵐ (1 + 1/r)^-α - m, where r = λβ and m = μ/β."""
    product, place, a = p.rate * q.scale, q.loc / q.scale, p.concentration
    own = (a - 1) * a.digamma() - a.lgamma() - a
    return own + product.log() + a / product + place.exp() * (1 + product.reciprocal()).pow(-a) - place


@register_kl(Normal, Gumbel)
def _(p: Operand, q: Operand) -> Tensor:
    """-½ log r + d + exp(½r - d) - ½(1 + log 2π), where r = σ²/β² and d = (μₚ - μ_q)/β."""
    ratio, away = (p.scale / q.scale).pow(2), (p.loc - q.loc) / q.scale
    return -0.5 * ratio.log() + away + (0.5 * ratio - away).exp() - 0.5 * (1 + math.log(2 * math.pi))


@register_kl(Normal, Laplace)
def _(p: Operand, q: Operand) -> Tensor:
    """-log σ/b + E|x - μ_q|/b - ½(1 + log π/2)."""
    away = p.loc - q.loc
    z = away / p.scale
    spread = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z.pow(2)).exp() + away * erf(math.sqrt(0.5) * z)
    return -(p.scale / q.scale).log() + spread / q.scale - 0.5 * (1 + math.log(0.5 * math.pi))


@register_kl(Pareto, Exponential)
def _(p: Operand, q: Operand) -> Tensor:
    """log α/mλ - 1/α + mλα/(α - 1) - 1; ∞ where there is no mean."""
    product = p.scale * q.rate
    result = (p.alpha / product).log() - p.alpha.reciprocal() + p.alpha * product / (p.alpha - 1) - 1
    return where(p.alpha <= 1, math.inf, result)


@register_kl(Pareto, Gamma)
def _(p: Operand, q: Operand) -> Tensor:
    """-H(p) - E[log q(x)], where E[log x] = log m + 1/α; ∞ where there is no mean."""
    mean_log = p.scale.log() + p.alpha.reciprocal()
    mean = p.alpha * p.scale / (p.alpha - 1)
    return where(p.alpha <= 1, math.inf, -p.entropy() + _cross_entropy_to_gamma(mean, mean_log, q))


@register_kl(Pareto, Normal)
def _(p: Operand, q: Operand) -> Tensor:
    """-H(p) - E[log q(x)]; ∞ where there is no variance."""
    step = p.scale / (p.alpha - 1)
    variance = p.alpha * step.pow(2) / (p.alpha - 2)
    return where(p.alpha <= 2, math.inf, -p.entropy() + _cross_entropy_to_normal(p.alpha * step, variance, q))


def _mean_log(low: Tensor, high: Tensor) -> Tensor:
    """E[log x] of a uniform x: (high log high - low log low)/(high - low) - 1."""
    return (xlogy(high, high) - xlogy(low, low)) / (high - low) - 1


@register_kl(Uniform, Beta)
def _(p: Operand, q: Operand) -> Tensor:
    """-log(high - low) - (a - 1) E[log x] - (b - 1) E[log(1 - x)] + log B(a, b); ∞ for what reaches out of [0, 1]."""
    a, b = q.concentration1, q.concentration0
    log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
    logs = (a - 1) * _mean_log(p.low, p.high) + (b - 1) * _mean_log(1 - p.high, 1 - p.low)
    return where((p.high > 1.0) | (p.low < 0.0), math.inf, log_beta - p.entropy() - logs)


@register_kl(Uniform, ContinuousBernoulli)
def _(p: Operand, q: Operand) -> Tensor:
    """-log(high - low) - E[x] logit Q - log (1 - Q)C(Q); ∞ for what is not inside of [0, 1]."""
    result = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()
    return where((p.high >= 1.0) | (p.low <= 0.0), math.inf, result)


@register_kl(Uniform, Exponential)
def _(p: Operand, q: Operand) -> Tensor:
    """λ E[x] - log λ(high - low); ∞ for what reaches below 0."""
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return where(p.low < 0.0, math.inf, result)


@register_kl(Uniform, Gamma)
def _(p: Operand, q: Operand) -> Tensor:
    """-log(high - low) - E[log q(x)]; ∞ for what reaches below 0."""
    return where(p.low < 0.0, math.inf, -p.entropy() + _cross_entropy_to_gamma(p.mean, _mean_log(p.low, p.high), q))


@register_kl(Uniform, Gumbel)
def _(p: Operand, q: Operand) -> Tensor:
    """log r + ½(h + l) - r(e^-h - e^-l), where r = β/(high - low), and h and l are (high - μ)/β and (low - μ)/β."""
    ratio = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return ratio.log() + 0.5 * (high + low) - ratio * ((-high).exp() - (-low).exp())


@register_kl(Uniform, Pareto)
def _(p: Operand, q: Operand) -> Tensor:
    """(α + 1) E[log x] - log α mᵅ (high - low); ∞ for what reaches below m."""
    constant = (q.alpha * q.scale.pow(q.alpha) * (p.high - p.low)).log()
    return where(p.low < q.scale, math.inf, (q.alpha + 1) * _mean_log(p.low, p.high) - constant)
