"""Divergences between two distributions of one family."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from adjoint.autograd.backward import grad
from adjoint.core.typing import Operand
from adjoint.distributions.constraints.constraint import can_validate_values
from adjoint.distributions.continuous.cauchy import Cauchy
from adjoint.distributions.continuous.continuous_bernoulli import ContinuousBernoulli
from adjoint.distributions.continuous.dirichlet import Beta, Dirichlet
from adjoint.distributions.continuous.exponential import Exponential, Laplace, Pareto
from adjoint.distributions.continuous.gamma import Gamma
from adjoint.distributions.continuous.normal import HalfNormal, Normal
from adjoint.distributions.continuous.uniform import Gumbel, Uniform
from adjoint.distributions.discrete.bernoulli import Bernoulli, Geometric
from adjoint.distributions.discrete.binomial import Binomial, Poisson
from adjoint.distributions.discrete.categorical import Categorical, OneHotCategorical
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.independent import Independent
from adjoint.distributions.kl.registry import kl_divergence, register_kl
from adjoint.distributions.multivariate.cholesky_forms import (
    half_log_det,
    low_rank_log_det,
    low_rank_mahalanobis,
    mahalanobis,
    trace_of_square,
)
from adjoint.distributions.multivariate.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from adjoint.distributions.parameters import EULER_GAMMA, sum_rightmost
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.functions.elementwise.activation import softplus
from adjoint.functions.elementwise.pointwise import where
from adjoint.functions.linalg.solve import solve_triangular

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


@register_kl(Bernoulli, Bernoulli)
def _(p: Operand, q: Operand) -> Tensor:
    """P log P/Q + (1 - P) log (1 - P)/(1 - Q)."""
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    zero = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    one = where(p.probs == 0, 0.0, where(q.probs == 0, math.inf, one))
    return one + where(p.probs == 1, 0.0, where(q.probs == 1, math.inf, zero))


@register_kl(Beta, Beta)
def _(p: Operand, q: Operand) -> Tensor:
    """log B(q) - log B(p) + Σ (aₚ - a_q) ψ(aₚ) - (Σₚ - Σ_q) ψ(Σₚ)."""
    return kl_divergence(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _(p: Operand, q: Operand) -> Tensor:
    """log B(q) - log B(p) + Σ (aₚ - a_q)(ψ(aₚ) - ψ(Σₚ))."""
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    betas = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return betas + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Binomial, Binomial)
def _(p: Operand, q: Operand) -> Tensor:
    """n (P log P/Q + (1 - P) log (1 - P)/(1 - Q)), ∞ where p counts more. Raises NotImplementedError for fewer."""
    fewer = p.total_count < q.total_count
    if can_validate_values(fewer) and fewer.any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return where(p.total_count > q.total_count, math.inf, p.total_count * each)


@register_kl(Categorical, Categorical)
def _(p: Operand, q: Operand) -> Tensor:
    """Σ P log P/Q."""
    terms = p.probs * (p.logits - q.logits)
    return where(p.probs == 0, 0.0, where(q.probs == 0, math.inf, terms)).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _(p: Operand, q: Operand) -> Tensor:
    """KL of the categories."""
    return kl_divergence(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _(p: Operand, q: Operand) -> Tensor:
    """E[x] (logit P - logit Q) + log C(P)(1 - P) - log C(Q)(1 - Q)."""
    constants = p._cont_bern_log_norm() + (-p.probs).log1p() - q._cont_bern_log_norm() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + constants


@register_kl(Exponential, Exponential)
def _(p: Operand, q: Operand) -> Tensor:
    """r - 1 - log r, where r = λ_q/λₚ."""
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(ExponentialFamily, ExponentialFamily)
def _(p: Operand, q: Operand) -> Tensor:
    """F(θ_q) - F(θₚ) - ⟨θ_q - θₚ, ∇F(θₚ)⟩, the Bregman divergence. Raises NotImplementedError for two families."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    natural = [n.detach().requires_grad_() for n in p._natural_params]
    normalizer = p._log_normalizer(*natural)
    slopes = grad(normalizer.sum(), natural, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for other, parameter, slope in zip(q._natural_params, natural, slopes, strict=True):
        result = result - sum_rightmost((other - parameter) * slope, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _(p: Operand, q: Operand) -> Tensor:
    """α_q log βₚ/β_q + log Γ(α_q) - log Γ(αₚ) + (αₚ - α_q) ψ(αₚ) + (β_q - βₚ) αₚ/βₚ."""
    a, b = p.concentration, q.concentration
    shapes = b.lgamma() - a.lgamma() + (a - b) * a.digamma()
    return b * (p.rate / q.rate).log() + shapes + (q.rate - p.rate) * (a / p.rate)


@register_kl(Gumbel, Gumbel)
def _(p: Operand, q: Operand) -> Tensor:
    """-log r + d + γr + e^-d Γ(1 + r) - 1 - γ, where r = βₚ/β_q and d = (μₚ - μ_q)/β_q."""
    ratio, away = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return -ratio.log() + away + ratio * EULER_GAMMA + ((1 + ratio).lgamma() - away).exp() - (1 + EULER_GAMMA)


@register_kl(Geometric, Geometric)
def _(p: Operand, q: Operand) -> Tensor:
    """-H(p) - log(1 - Q)/P - logit Q."""
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _(p: Operand, q: Operand) -> Tensor:
    """KL of the normals."""
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _(p: Operand, q: Operand) -> Tensor:
    """-log r + d/b_q + r e^(-d/bₚ) - 1, where r = bₚ/b_q and d = |μₚ - μ_q|."""
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _(p: Operand, q: Operand) -> Tensor:
    """½ (r + (μₚ - μ_q)²/σ_q² - 1 - log r), where r = σₚ²/σ_q²."""
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(MultivariateNormal, MultivariateNormal)
def _(p: Operand, q: Operand) -> Tensor:
    """½ (log det Σ_q/det Σₚ + tr Σ_q⁻¹Σₚ + (μ_q - μₚ)ᵀΣ_q⁻¹(μ_q - μₚ) - n)."""
    return _kl_of_normals(p, q, "Multivariate Normals")


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _(p: Operand, q: Operand) -> Tensor:
    """KL of two normal distributions."""
    return _kl_of_normals(p, q, "Low Rank Multivariate Normals")


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _(p: Operand, q: Operand) -> Tensor:
    """KL of two normal distributions."""
    return _kl_of_normals(p, q, "(Low Rank) Multivariate Normals")


def _kl_of_normals(p: Operand, q: Operand, who: str) -> Tensor:
    """½ (log det Σ_q/det Σₚ + tr Σ_q⁻¹Σₚ + (μ_q - μₚ)ᵀΣ_q⁻¹(μ_q - μₚ) - n). Raises ValueError for different n."""
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL-divergence between two {who} with different event shapes cannot be computed")
    trace, distance = _trace_and_mahalanobis(_covariance_roots(p), q, q.loc - p.loc)
    return 0.5 * (_log_det(q) - _log_det(p) + trace + distance - p.event_shape[0])


def _log_det(p: Operand) -> Tensor:
    if isinstance(p, LowRankMultivariateNormal):
        return low_rank_log_det(*p._parts, p._capacitance_tril)
    return 2 * half_log_det(p._unbroadcasted_scale_tril)


def _covariance_roots(p: Operand) -> list[Tensor]:
    """Matrices A with Σ AAᵀ = Σₚ."""
    if isinstance(p, LowRankMultivariateNormal):
        factor, diagonal = p._parts
        return [factor, diagonal.sqrt().diag_embed()]
    return [p._unbroadcasted_scale_tril]


def _trace_and_mahalanobis(roots: list[Tensor], q: Operand, away: Tensor) -> tuple[Tensor, Tensor]:
    """tr Σ_q⁻¹AAᵀ of the roots A, and dᵀΣ_q⁻¹d."""
    if not isinstance(q, LowRankMultivariateNormal):
        factor = q._unbroadcasted_scale_tril
        traces = [trace_of_square(solve_triangular(factor, root, upper=False)) for root in roots]
        return sum(traces[1:], traces[0]), mahalanobis(factor, away)
    (w, d), factor = q._parts, q._capacitance_tril
    part = solve_triangular(factor, w.mT / d.unsqueeze(-2), upper=False)
    root_d = d.rsqrt().unsqueeze(-1)
    traces = [trace_of_square(root * root_d) - trace_of_square(part @ root) for root in roots]
    return sum(traces[1:], traces[0]), low_rank_mahalanobis(w, d, away, factor)


@register_kl(Pareto, Pareto)
def _(p: Operand, q: Operand) -> Tensor:
    """α_q log mₚ/m_q - log r + r - 1, where r = α_q/αₚ; ∞ where p reaches lower."""
    ratio = q.alpha / p.alpha
    return where(p.scale < q.scale, math.inf, q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1)


@register_kl(Poisson, Poisson)
def _(p: Operand, q: Operand) -> Tensor:
    """λₚ log λₚ/λ_q - λₚ + λ_q."""
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _(p: Operand, q: Operand) -> Tensor:
    """log of the ratio of the lengths; ∞ where q's interval does not hold p's."""
    ratio = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, ratio)


@register_kl(Cauchy, Cauchy)
def _(p: Operand, q: Operand) -> Tensor:
    """log ((γₚ + γ_q)² + (mₚ - m_q)²) / 4γₚγ_q."""
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(TransformedDistribution, TransformedDistribution)
def _(p: Operand, q: Operand) -> Tensor:
    """KL of the bases. Raises NotImplementedError for different transforms."""
    if p.transforms != q.transforms:
        raise NotImplementedError("the transforms of the two distributions differ")
    if p.event_shape != q.event_shape:
        raise NotImplementedError(f"the event shapes {p.event_shape} and {q.event_shape} differ")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _(p: Operand, q: Operand) -> Tensor:
    """The sum of the KLs of the bases. Raises NotImplementedError where they reinterpret different dimensions."""
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("the two distributions reinterpret different numbers of dimensions")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
