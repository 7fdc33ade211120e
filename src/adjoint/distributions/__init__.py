"""Distributions: samples, densities, entropies and divergences, with gradients; transforms and constraints.

Modules, in reading order:

- `parameters`: Parameters of distributions: broadcasting, and probabilities and log-odds computed from one another.
- `constraints`: Constraints: sets of numbers, vectors or matrices, with a check of membership.
- `distribution`: The base class of distributions: shapes, checks of parameters and samples, and the methods of all.
- `transforms`: Transforms: functions with known Jacobian determinant, inverse, domain and codomain.
- `exp_family`: The exponential family: entropy and divergence from the derivative of the log normalizer.
- `independent`: The product of independent distributions, taken as one over larger events.
- `probs_or_logits`: Distributions given by the probability of a success, or by its log-odds.
- `transformed_distribution`: The distribution of a function of another distribution's samples.
- `continuous`: Continuous distributions of numbers.
- `discrete`: Discrete distributions.
- `multivariate`: Distributions of vectors and matrices.
- `kl`: The Kullback-Leibler divergence between two distributions.
- `mixture_same_family`: Mixtures of distributions of one family.
- `location_scale`: Location-scale families, and the absolute values of symmetric distributions.
"""

from __future__ import annotations

from adjoint.distributions import constraints, kl, transforms
from adjoint.distributions.constraints import registry as constraint_registry
from adjoint.distributions.constraints.registry import biject_to, transform_to
from adjoint.distributions.continuous.cauchy import Cauchy, HalfCauchy, StudentT
from adjoint.distributions.continuous.continuous_bernoulli import ContinuousBernoulli
from adjoint.distributions.continuous.dirichlet import Beta, Dirichlet, Kumaraswamy
from adjoint.distributions.continuous.exponential import Exponential, Laplace, Pareto, Weibull
from adjoint.distributions.continuous.gamma import Chi2, FisherSnedecor, Gamma, InverseGamma
from adjoint.distributions.continuous.normal import HalfNormal, LogisticNormal, LogNormal, Normal
from adjoint.distributions.continuous.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from adjoint.distributions.continuous.uniform import GeneralizedPareto, Gumbel, Uniform
from adjoint.distributions.continuous.von_mises import VonMises
from adjoint.distributions.discrete.bernoulli import Bernoulli, Geometric
from adjoint.distributions.discrete.binomial import Binomial, NegativeBinomial, Poisson
from adjoint.distributions.discrete.categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.independent import Independent
from adjoint.distributions.kl import cross_family, same_family
from adjoint.distributions.kl.registry import kl_divergence, register_kl
from adjoint.distributions.mixture_same_family import MixtureSameFamily
from adjoint.distributions.multivariate.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from adjoint.distributions.multivariate.wishart import LKJCholesky, Wishart
from adjoint.distributions.transformed_distribution import TransformedDistribution
from adjoint.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform", "Categorical", "Cauchy", "Chi2",
    "ComposeTransform", "ContinuousBernoulli", "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet",
    "Distribution", "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto",
    "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "IndependentTransform", "InverseGamma",
    "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal", "LowRankMultivariateNormal",
    "LowerCholeskyTransform", "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform",
    "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform", "SigmoidTransform",
    "SoftmaxTransform", "SoftplusTransform", "StackTransform", "StickBreakingTransform", "StudentT", "TanhTransform",
    "Transform", "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to",
    "constraint_registry", "constraints", "identity_transform", "kl", "kl_divergence", "register_kl", "transform_to",
    "transforms",
]  # fmt: skip
