"""Distributions at the edges of their parameters and supports against PyTorch's: values and gradients."""

from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")
EDGES = [
    "d.Bernoulli(t([0.0, 1.0, 0.0])).log_prob(t([0.0, 1.0, 1.0]))",
    "d.Bernoulli(t([0.0, 1.0, 0.5])).entropy()",
    "d.Bernoulli(logits=t([-120.0, 90.0, 0.0])).log_prob(t([0.0, 0.0, 1.0]))",
    "d.Categorical(t([0.0, 1.0, 0.0])).entropy()",
    "d.Categorical(logits=t([0.0, -inf, 1.0])).entropy()",
    "d.Categorical(logits=t([0.0, -inf, 1.0])).log_prob(t([0.0, 1.0, 2.0]))",
    "d.Categorical(logits=t([[0.0, -inf, 1.0]])).expand((4,)).log_prob(t([[0.0], [2.0]]))",
    "d.Multinomial(3, logits=t([0.0, -inf, 1.0])).log_prob(t([1.0, 0.0, 2.0]))",
    "d.Multinomial(3, t([0.2, 0.3, 0.5])).entropy()",
    "d.Geometric(t([1.0, 0.5])).log_prob(t([0.0, 3.0]))",
    "d.Geometric(t([1.0, 0.5])).entropy()",
    "d.Poisson(t([0.0, 2.0])).log_prob(t([0.0, 0.0]))",
    "d.Binomial(0, t([0.5, 0.3])).log_prob(t([0.0, 0.0]))",
    "d.Binomial(3, t([0.0, 1.0])).log_prob(t([0.0, 3.0]))",
    "d.Binomial(3, logits=t([0.0, 100.0])).log_prob(t([1.0, 3.0]))",
    "d.Binomial(t([2.0, 4.0]), t(0.5)).mode",
    "d.NegativeBinomial(t([0.0, 2.0]), t([0.5, 0.3])).log_prob(t([0.0, 1.0]))",
    "d.Gamma(t([1.0, 2.0]), t([1.0, 2.0])).log_prob(t([0.0, 1e-30]))",
    "d.Gamma(t([0.5, 2.0]), t([1.0, 2.0])).mode",
    "d.Beta(t([1.0, 2.0]), t([1.0, 2.0])).log_prob(t([0.0, 1.0]))",
    "d.Beta(t([0.5, 2.0, 0.3]), t([0.7, 0.5, 0.3])).mode",
    "d.Dirichlet(t([[0.5, 0.2], [1.0, 3.0], [0.5, 2.0]])).mode",
    "d.Dirichlet(t([1.0, 1.0, 2.0])).log_prob(t([0.0, 0.5, 0.5]))",
    "d.Uniform(t(0.0), t(1.0)).log_prob(t([0.0, 0.5]))",
    "d.Uniform(0.0, t(1.0), validate_args=False).log_prob(t([1.0, 2.0]))",
    "d.Uniform(0.0, t(1.0), validate_args=False).cdf(t([-1.0, 2.0]))",
    "d.HalfNormal(t(1.5), validate_args=False).log_prob(t([-1.0, 0.0, 1.0]))",
    "d.HalfCauchy(t(1.5), validate_args=False).log_prob(t([-1.0, 0.0, 1.0]))",
    "d.HalfNormal(t(1.5)).icdf(t([0.0, 0.5]))",
    "d.Laplace(t(0.0), t(1.0)).log_prob(t(0.0))",
    "d.Laplace(t(0.0), t(1.0)).icdf(t([0.5, 0.25]))",
    "d.Exponential(t(2.0)).cdf(t([0.0, 100.0]))",
    "d.StudentT(t([0.5, 1.0, 1.5, 2.0, 3.0])).variance",
    "d.FisherSnedecor(t([1.0, 2.0, 3.0]), t([2.0, 4.0, 6.0])).variance",
    "d.FisherSnedecor(t([1.0, 2.0, 3.0]), t([2.0, 4.0, 6.0])).mode",
    "d.Pareto(t(1.0), t([0.5, 1.0, 1.5, 3.0])).mean",
    "d.Pareto(t(1.0), t([0.5, 2.0, 3.0])).variance",
    "d.InverseGamma(t([0.5, 1.0, 3.0]), t(1.0)).variance",
    "d.Kumaraswamy(t([0.5, 1.0, 2.0]), t([2.0, 1.5, 3.0])).mode",
    "d.ContinuousBernoulli(t([0.4995, 0.5, 0.5005])).log_prob(t([0.2, 0.5, 1.0]))",
    "d.ContinuousBernoulli(t([0.4995, 0.5, 0.9])).entropy()",
    "d.ContinuousBernoulli(t([0.0, 1.0])).variance",
    "d.ContinuousBernoulli(t([0.3, 0.5])).cdf(t([0.0, 1.0]))",
    "d.VonMises(t(0.0), t([1e-3, 3.75, 50.0])).log_prob(t(3.0))",
    "d.VonMises(t(0.0), t([1e-3, 3.75, 50.0])).variance",
    "d.LKJCholesky(2, t([0.5, 3.0])).log_prob(t([[1.0, 0.0], [0.6, 0.8]]))",
    "d.Wishart(t(2.5), t([[2.0]])).log_prob(t([[1.5]]))",
    "d.Wishart(t(4.5), t([[2.0, 0.5], [0.5, 1.0]])).entropy()",
    "d.Wishart(t(4.5), precision_matrix=t([[2.0, 0.5], [0.5, 1.0]])).precision_matrix",
    "d.MultivariateNormal(t([0.0, 1.0]), t([[2.0, 0.5], [0.5, 1.0]])).precision_matrix",
    "d.MultivariateNormal(t([0.0, 1.0]), precision_matrix=t([[2.0, 0.5], [0.5, 1.0]])).covariance_matrix",
    "d.LowRankMultivariateNormal(t([0.0, 1.0]), t([[2.0], [0.5]]), t([1.0, 2.0])).precision_matrix",
    "d.LowRankMultivariateNormal(t([0.0, 1.0]), t([[2.0], [0.5]]), t([1.0, 2.0])).scale_tril",
    "d.LowRankMultivariateNormal(t([0.0, 1.0]), t([[2.0], [0.5]]), t([1.0, 2.0])).covariance_matrix",
    "d.RelaxedBernoulli(t(0.1), logits=t([-30.0, 30.0])).log_prob(t([1e-6, 1.0 - 1e-6]))",
    "d.OneHotCategorical(t([0.0, 1.0])).log_prob(t([[0.0, 1.0]]))",
    "d.MixtureSameFamily(d.Categorical(t([0.3, 0.7])), d.Normal(t([[0.0, 1.0]] * 3), 1.0)).mean",
    "d.MixtureSameFamily(d.Categorical(t([0.3, 0.7])), d.Normal(t([[0.0, 1.0]] * 3), 1.0)).expand((2, 3)).variance",
    "d.TransformedDistribution(d.Normal(t([0.0, 1.0]), 1.0), []).log_prob(t([0.5, 1.0]))",
    "d.TransformedDistribution(d.Normal(t(0.0), 1.0), d.AffineTransform(0.0, t([1.0, 2.0]))).log_prob(t([0.5, 1.0]))",
    "d.TransformedDistribution(d.Normal(t([[0.0, 1.0]]), 1.0), d.AffineTransform(0.0, 2.0, 1)).log_prob(t([0.5, 1.0]))",
    "d.TransformedDistribution(d.Normal(t([0.0, 1.0]), 2), d.ReshapeTransform((2,), (1, 2))).log_prob(t([[0.5, 1.0]]))",
    "d.Weibull(t(1.0), t([0.5, 2.0])).expand((3, 2)).log_prob(t([0.5, 1.0]))",
    "d.Gumbel(t([0.0, 1.0]), 2.0).expand((3, 2)).cdf(t([0.5, 1.0]))",
    "d.Gumbel(t([0.0, 1.0]), 2.0).expand((3, 2)).icdf(t([0.5, 0.9]))",
    "d.LogNormal(t([0.0, 1.0]), 2.0).cdf(t([0.5, 0.9]))",
    "d.Normal(t(0.0), t(1.0)).log_prob(t([[inf, -inf, 1e30]]))",
    "d.Independent(d.Bernoulli(t([0.2, 0.5])), 0).enumerate_support()",
    "d.Independent(d.Dirichlet(t([[1.0, 2.0]] * 3)), 1).entropy()",
    "d.utils.vec_to_tril_matrix(t([[1.0, 2.0, 3.0]] * 2), -1)",
    "d.utils.tril_matrix_to_vec(t([[1.0, 2.0], [3.0, 4.0]]))",
    "d.utils.clamp_probs(t([0.0, 0.5, 1.0]))",
]


@pytest.mark.parametrize("expression", EDGES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_and_gradients(expression: str) -> None:
    results = []
    for library in (ad, torch):
        leaves: list[Any] = []

        def t(values: Any, library: Any = library, leaves: list[Any] = leaves) -> Any:
            leaves.append(library.tensor(values, dtype=library.float64, requires_grad=True))
            return leaves[-1]

        names = {"d": library.distributions, "t": t, "inf": float("inf")}
        result = eval(expression, names)
        found = [result.detach().numpy()]
        if result.requires_grad:
            slopes = library.autograd.grad(result.sum(), leaves, allow_unused=True)
            found += [np.zeros(leaf.shape) if g is None else g.numpy() for g, leaf in zip(slopes, leaves, strict=True)]
        results.append(found)
    for place, (ours, theirs) in enumerate(zip(*results, strict=True)):
        assert ours.dtype == theirs.dtype
        if place:  # where a branch that is not taken is infinite, a gradient of PyTorch's may be NaN
            ours = np.where(np.isnan(theirs), theirs, ours)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


def test_factors_by_the_names_that_programs_import() -> None:
    torch = pytest.importorskip("torch")
    from torch.distributions import multivariate_normal as theirs

    from adjoint.distributions import multivariate_normal as mine

    precision, x = [[2.0, 0.5], [0.5, 1.0]], [0.3, -1.0]
    for name in ("_batch_mahalanobis", "_batch_mv", "_precision_to_scale_tril"):
        found = []
        for library, home in ((ad, mine), (torch, theirs)):
            given = [library.tensor(precision), library.tensor(x)][: 1 if name == "_precision_to_scale_tril" else 2]
            found.append(getattr(home, name)(*given).tolist())
        assert found[0] == pytest.approx(found[1]) if isinstance(found[0], float) else np.allclose(*found)


def test_subclasses_of_normals_may_draw_in_another_shape() -> None:
    class Tasks(ad.distributions.MultivariateNormal):
        def _extended_shape(self, sample_shape: Any = ()) -> Any:
            return ad.Size([*sample_shape, 2, 2])

    class LowRank(ad.distributions.LowRankMultivariateNormal):
        _extended_shape = Tasks._extended_shape

    assert Tasks(ad.zeros(4), ad.eye(4)).variance.tolist() == [1] * 4
    assert LowRank(ad.zeros(4), ad.ones(4, 1), ad.ones(4)).variance.tolist() == [2] * 4
