"""Distributions: samples, densities, entropies and divergences, with gradients; transforms and constraints."""

from __future__ import annotations

import sys

from adjoint.distributions import constraint_registry, constraints, cross_divergences, divergences, kl, transforms
from adjoint.distributions.bernoulli import Bernoulli, Geometric
from adjoint.distributions.binomial import Binomial, NegativeBinomial, Poisson
from adjoint.distributions.categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from adjoint.distributions.cauchy import Cauchy, HalfCauchy, StudentT
from adjoint.distributions.constraint_registry import biject_to, transform_to
from adjoint.distributions.continuous_bernoulli import ContinuousBernoulli
from adjoint.distributions.dirichlet import Beta, Dirichlet, Kumaraswamy
from adjoint.distributions.distribution import Distribution
from adjoint.distributions.exp_family import ExponentialFamily
from adjoint.distributions.exponential import Exponential, Laplace, Pareto, Weibull
from adjoint.distributions.gamma import Chi2, FisherSnedecor, Gamma, InverseGamma
from adjoint.distributions.independent import Independent
from adjoint.distributions.kl import kl_divergence, register_kl
from adjoint.distributions.mixture_same_family import MixtureSameFamily
from adjoint.distributions.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from adjoint.distributions.normal import HalfNormal, LogisticNormal, LogNormal, Normal
from adjoint.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
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
from adjoint.distributions.uniform import GeneralizedPareto, Gumbel, Uniform
from adjoint.distributions.von_mises import VonMises
from adjoint.distributions.wishart import LKJCholesky, Wishart

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

# Programs also import from a module for each distribution; a file here has several, under these names too.
_ALSO = {
    "bernoulli": "geometric", "binomial": "negative_binomial poisson", "categorical": "multinomial one_hot_categorical",
    "cauchy": "half_cauchy studentT", "dirichlet": "beta kumaraswamy", "exponential": "laplace pareto weibull",
    "gamma": "chi2 fishersnedecor inverse_gamma", "multivariate_normal": "lowrank_multivariate_normal",
    "normal": "half_normal log_normal logistic_normal", "parameters": "utils",
    "relaxed": "relaxed_bernoulli relaxed_categorical", "uniform": "generalized_pareto gumbel",
    "wishart": "lkj_cholesky",
}  # fmt: skip
for _module, _names in _ALSO.items():
    for _name in _names.split():
        globals()[_name] = sys.modules[f"{__name__}.{_name}"] = sys.modules[f"{__name__}.{_module}"]
