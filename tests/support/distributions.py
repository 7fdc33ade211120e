"""Distributions to compare with PyTorch's: how each is made, and values to ask it about.

Expressions of `d`, the package, and of the parameters, which want a gradient.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A constructor, the parameters it names, values of the support, and the dtype of both."""

    make: str
    parameters: dict[str, object]
    value: object
    dtype: str = "float64"


PAIR = {"a": [0.5, 2.5], "b": [1.5, 0.7]}
PROBS = {"a": [0.2, 0.5, 0.9]}
LOGITS = {"a": [-1.0, 0.0, 2.0]}
ROWS = {"a": [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]}
VECTOR = {"a": [0.5, -1.0, 2.0]}
MATRIX = [[2.0, 0.5, 0.1], [0.5, 1.5, 0.2], [0.1, 0.2, 1.0]]
FACTOR = [[1.0, 0.0, 0.0], [0.5, 1.5, 0.0], [-0.2, 0.3, 0.8]]
NORMALS = {**VECTOR, "b": MATRIX}
LOW_RANK = {**VECTOR, "b": [[1.0, 0.2], [0.3, -0.5], [0.0, 1.0]], "c": [0.5, 1.0, 2.0]}

CASES = {
    "Normal": Case("d.Normal(a, b)", PAIR, [0.3, -1.0]),
    "Normal of numbers": Case("d.Normal(0.5, 2.0)", {}, [0.3, -1.0], "float32"),
    "LogNormal": Case("d.LogNormal(a, b)", PAIR, [0.3, 2.0]),
    "HalfNormal": Case("d.HalfNormal(a)", {"a": [0.5, 2.5]}, [0.3, 2.0]),
    "LogisticNormal": Case("d.LogisticNormal(a, b)", PAIR, [0.2, 0.3, 0.5]),
    "MultivariateNormal": Case("d.MultivariateNormal(a, b)", NORMALS, [0.1, 0.2, 0.3]),
    "MultivariateNormal precision": Case("d.MultivariateNormal(a, precision_matrix=b)", NORMALS, [[0.1, 0.2, 0.3]]),
    "MultivariateNormal factor": Case(
        "d.MultivariateNormal(a, scale_tril=b)", {"a": [[0.5, -1.0, 2.0]] * 2, "b": FACTOR}, [[[0.1, 0.2, 0.3]]] * 2
    ),
    "MultivariateNormal batch": Case(
        "d.MultivariateNormal(a, scale_tril=b)", {**VECTOR, "b": [FACTOR] * 2}, [[[0.1, 0.2, 0.3]] * 2] * 3
    ),
    "LowRankMultivariateNormal": Case("d.LowRankMultivariateNormal(a, b, c)", LOW_RANK, [[0.1, 0.2, 0.3]] * 2),
    "Categorical": Case("d.Categorical(a)", ROWS, [2.0, 1.0]),
    "Categorical logits": Case("d.Categorical(logits=a)", VECTOR, [2.0, 0.0]),
    "OneHotCategorical": Case("d.OneHotCategorical(a)", ROWS, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    "OneHotCategoricalStraightThrough": Case("d.OneHotCategoricalStraightThrough(logits=a)", VECTOR, [0.0, 1.0, 0.0]),
    "Multinomial": Case("d.Multinomial(4, a)", ROWS, [[1.0, 1.0, 2.0], [4.0, 0.0, 0.0]]),
    "Bernoulli": Case("d.Bernoulli(a)", PROBS, [0.0, 1.0, 1.0]),
    "Bernoulli logits": Case("d.Bernoulli(logits=a)", LOGITS, [0.0, 1.0, 1.0]),
    "Geometric": Case("d.Geometric(a)", PROBS, [0.0, 3.0, 1.0]),
    "Geometric logits": Case("d.Geometric(logits=a)", LOGITS, [0.0, 3.0, 1.0]),
    "ContinuousBernoulli": Case("d.ContinuousBernoulli(a)", PROBS, [0.1, 0.4, 0.9]),
    "ContinuousBernoulli logits": Case("d.ContinuousBernoulli(logits=a)", LOGITS, [0.1, 0.4, 0.9]),
    "Binomial": Case("d.Binomial(5, a)", PROBS, [0.0, 3.0, 5.0]),
    "Binomial logits": Case("d.Binomial(5, logits=a)", LOGITS, [0.0, 3.0, 5.0]),
    "NegativeBinomial": Case("d.NegativeBinomial(3.0, a)", PROBS, [0.0, 3.0, 5.0]),
    "NegativeBinomial logits": Case("d.NegativeBinomial(3.0, logits=a)", LOGITS, [0.0, 3.0, 5.0]),
    "Poisson": Case("d.Poisson(a)", {"a": [0.5, 4.0]}, [0.0, 6.0]),
    "RelaxedBernoulli": Case("d.RelaxedBernoulli(b, a)", {**PROBS, "b": 0.7}, [0.1, 0.4, 0.9]),
    "RelaxedBernoulli logits": Case("d.RelaxedBernoulli(b, logits=a)", {**LOGITS, "b": 0.7}, [0.1, 0.4, 0.9]),
    "RelaxedOneHotCategorical": Case("d.RelaxedOneHotCategorical(b, a)", {**ROWS, "b": 0.7}, [0.2, 0.3, 0.5]),
    "Beta": Case("d.Beta(a, b)", PAIR, [0.3, 0.8]),
    "Beta of numbers": Case("d.Beta(2.0, 3.0)", {}, [0.3, 0.8], "float32"),
    "Dirichlet": Case("d.Dirichlet(a)", {"a": [[0.5, 2.0, 1.5], [0.2, 0.9, 0.4]]}, [0.2, 0.3, 0.5]),
    "Kumaraswamy": Case("d.Kumaraswamy(a, b)", {"a": [1.5, 2.5], "b": [1.5, 2.7]}, [0.3, 0.8]),
    "Gamma": Case("d.Gamma(a, b)", PAIR, [0.3, 2.0]),
    "Chi2": Case("d.Chi2(a)", {"a": [0.5, 2.5]}, [0.3, 2.0]),
    "InverseGamma": Case("d.InverseGamma(a, b)", {"a": [1.5, 2.5], "b": [1.5, 0.7]}, [0.3, 2.0]),
    "FisherSnedecor": Case("d.FisherSnedecor(a, b)", {"a": [1.5, 3.0], "b": [3.0, 6.0]}, [0.3, 2.0]),
    "Uniform": Case("d.Uniform(a, b)", {"a": [-0.5, 0.5], "b": [1.5, 0.7]}, [0.3, 0.6]),
    "Exponential": Case("d.Exponential(a)", {"a": [0.5, 2.5]}, [0.3, 2.0]),
    "Laplace": Case("d.Laplace(a, b)", PAIR, [0.3, -1.0]),
    "StudentT": Case("d.StudentT(a, b, c)", {"a": [0.5, 1.5, 3.0], "b": [0.0, 1.0, 2.0], "c": 1.5}, [0.3, -1.0, 2.0]),
    "Cauchy": Case("d.Cauchy(a, b)", PAIR, [0.3, -1.0]),
    "HalfCauchy": Case("d.HalfCauchy(a)", {"a": [0.5, 2.5]}, [0.3, 2.0]),
    "Gumbel": Case("d.Gumbel(a, b)", PAIR, [0.3, -1.0]),
    "Pareto": Case("d.Pareto(a, b)", {"a": [0.5, 0.7], "b": [1.5, 3.0]}, [0.8, 2.0]),
    "Weibull": Case("d.Weibull(a, b)", {"a": [0.5, 2.5], "b": [1.5, 2.7]}, [0.3, 2.0]),
    "GeneralizedPareto": Case(
        "d.GeneralizedPareto(a, b, c)", {"a": [0.0, 0.5, 0.0], "b": [1.0, 2.0, 1.5], "c": [0.3, 0.0, -0.4]},
        [0.3, 2.0, 0.5], "float32",  # the only one that PyTorch takes
    ),
    "VonMises": Case("d.VonMises(a, b)", {"a": [0.5, -1.0], "b": [0.7, 6.0]}, [0.3, 2.0]),
    "LKJCholesky": Case(
        "d.LKJCholesky(3, a)", {"a": [1.5, 0.7]}, [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]]
    ),
    "Wishart": Case("d.Wishart(a, b)", {"a": 4.5, "b": MATRIX}, MATRIX),
    "Wishart factor": Case("d.Wishart(a, scale_tril=b)", {"a": [4.5, 6.0], "b": FACTOR}, MATRIX),
    "Independent": Case("d.Independent(d.Normal(a, b), 1)", PAIR, [0.3, -1.0]),
    "MixtureSameFamily": Case(
        "d.MixtureSameFamily(d.Categorical(a), d.Normal(b, 1.5))", {"a": [0.2, 0.3, 0.5], "b": [0.0, 1.0, 3.0]},
        [0.3, 2.0],
    ),
    "MixtureSameFamily vectors": Case(
        "d.MixtureSameFamily(d.Categorical(a), d.Independent(d.Normal(b, 1.5), 1))",
        {**ROWS, "b": [[[0.0, 1.0], [3.0, 1.0], [2.0, 2.0]]] * 2}, [[0.3, 2.0]] * 2,
    ),
    "TransformedDistribution": Case(
        "d.TransformedDistribution(d.Normal(a, b), [d.SigmoidTransform(), d.AffineTransform(1.0, -2.0)])", PAIR,
        [-0.3, 0.8],
    ),
    "TransformedDistribution of vectors": Case(
        "d.TransformedDistribution(d.Normal(a, b), d.StickBreakingTransform())", PAIR, [0.2, 0.3, 0.5]
    ),
}  # fmt: skip
