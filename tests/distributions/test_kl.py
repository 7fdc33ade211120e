"""Divergences against PyTorch's, of each pair that it documents, and what is registered by others."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.support.distributions import FACTOR, MATRIX

import adjoint as ad

torch: Any = pytest.importorskip("torch")
NAMES = {
    "Bernoulli": ["d.Bernoulli(t([0.2, 1.0]))", "d.Bernoulli(t([0.3, 0.0]))"],
    "Beta": ["d.Beta(t([0.5, 2.0]), t([1.5, 3.0]))", "d.Beta(t([1.5, 0.7]), t([2.5, 1.0]))"],
    "Binomial": ["d.Binomial(5, t([0.2, 0.5]))", "d.Binomial(t([5.0, 4.0]), t([0.3, 0.9]))"],
    "Categorical": ["d.Categorical(t([0.2, 0.8, 0.0]))", "d.Categorical(t([0.5, 0.5, 0.0]))"],
    "Cauchy": ["d.Cauchy(t([0.5, 2.0]), t([1.5, 3.0]))", "d.Cauchy(1.0, t([2.5, 1.0]))"],
    "ContinuousBernoulli": ["d.ContinuousBernoulli(t([0.2, 0.6]))", "d.ContinuousBernoulli(t([0.3, 0.9]))"],
    "Dirichlet": ["d.Dirichlet(t([0.5, 2.0, 1.0]))", "d.Dirichlet(t([1.5, 0.7, 2.0]))"],
    "Exponential": ["d.Exponential(t([0.5, 2.0]))", "d.Exponential(t([1.5, 0.7]))"],
    "Gamma": ["d.Gamma(t([0.5, 2.0]), t([1.5, 3.0]))", "d.Gamma(t([1.5, 0.7]), t([2.5, 1.0]))"],
    "Geometric": ["d.Geometric(t([0.2, 0.6]))", "d.Geometric(t([0.3, 0.9]))"],
    "Gumbel": ["d.Gumbel(t([0.5, 2.0]), t([1.5, 3.0]))", "d.Gumbel(t([1.5, 0.7]), t([2.5, 1.0]))"],
    "HalfNormal": ["d.HalfNormal(t([0.5, 2.0]))", "d.HalfNormal(t([1.5, 0.7]))"],
    "Independent": ["d.Independent(d.Normal(t([0.0, 1.0]), 2.0), 1)", "d.Independent(d.Normal(t([0.5, 2.0]), 1.0), 1)"],
    "Laplace": ["d.Laplace(t([0.5, 2.0]), t([1.5, 3.0]))", "d.Laplace(t([1.5, 0.7]), t([2.5, 1.0]))"],
    "LogNormal": ["d.LogNormal(t([0.5, 2.0]), t([1.5, 3.0]))", "d.LogNormal(t([1.5, 0.7]), t([2.5, 1.0]))"],
    "LowRankMultivariateNormal": [
        "d.LowRankMultivariateNormal(t([0.5, 2.0, 1.0]), t([[1.0], [0.5], [-1.0]]), t([1.0, 2.0, 0.5]))",
        "d.LowRankMultivariateNormal(t([[0.0, 2.0, 1.0]] * 2), t([[1.0], [0.5], [2.0]]), t([1.5, 2.0, 0.7]))",
    ],
    "MultivariateNormal": [
        f"d.MultivariateNormal(t([0.5, 2.0, 1.0]), t({MATRIX}))",
        f"d.MultivariateNormal(t([[0.0, 2.0, 1.0]] * 2), scale_tril=t([{FACTOR}] * 2))",
    ],
    "Normal": ["d.Normal(t([0.5, 2.0]), t([1.5, 3.0]))", "d.Normal(t([1.5, 0.7]), t([2.5, 1.0]))"],
    "OneHotCategorical": ["d.OneHotCategorical(t([0.2, 0.8]))", "d.OneHotCategorical(t([0.5, 0.5]))"],
    "Pareto": ["d.Pareto(t([0.5, 2.0]), t([1.5, 3.0]))", "d.Pareto(t([0.3, 2.7]), t([2.5, 1.0]))"],
    "Poisson": ["d.Poisson(t([0.5, 2.0]))", "d.Poisson(t([1.5, 0.7]))"],
    "TransformedDistribution": [
        "d.TransformedDistribution(d.Normal(t([0.5, 2.0]), 1.0), d.ExpTransform())",
        "d.TransformedDistribution(d.Normal(t([1.5, 0.7]), 2.0), d.ExpTransform())",
    ],
    "Uniform": ["d.Uniform(t([0.1, 0.6]), t([0.9, 0.8]))", "d.Uniform(t([-0.1, 0.7]), t([1.9, 2.8]))"],
    "Wishart": [f"d.Wishart(4.5, t({MATRIX}))", f"d.Wishart(5.5, scale_tril=t({FACTOR}))"],
    "Chi2": ["d.Chi2(t([0.5, 2.0]))", "d.Chi2(t([1.5, 0.7]))"],
}


def divergence(library: Any, first: str, second: str) -> tuple[Any, Any]:
    """The divergence and its gradient by all parameters, or what it raises."""
    leaves: list[Any] = []

    def t(values: Any) -> Any:
        leaves.append(library.tensor(values, dtype=library.float64, requires_grad=True))
        return leaves[-1]

    names = {"d": library.distributions, "t": t}
    p, q = eval(first, names), eval(second, names)
    try:
        result = library.distributions.kl_divergence(p, q)
    except NotImplementedError:
        return "NotImplementedError", None
    finite = result.detach().isfinite()
    if not finite.all() or not result.requires_grad:
        return result.detach().numpy(), None
    slopes = library.autograd.grad(result.sum(), leaves, allow_unused=True)
    return result.detach().numpy(), [np.zeros(()) if g is None else g.numpy() for g in slopes]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("second", NAMES)
@pytest.mark.parametrize("first", NAMES)
def test_pair(first: str, second: str) -> None:
    for i, j in [(0, 0), (0, 1), (1, 0)]:
        if i == j and first != second:
            continue
        results = [divergence(library, NAMES[first][i], NAMES[second][j]) for library in (ad, torch)]
        (ours, our_slopes), (theirs, their_slopes) = results
        if isinstance(theirs, str):
            assert ours == theirs
            continue
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)
        assert (our_slopes is None) == (their_slopes is None)
        for one, other in zip(our_slopes or (), their_slopes or (), strict=True):
            one, other = (
                np.tril(g) if g.ndim == 2 and "tril" in NAMES[second][j] + NAMES[first][i] else g for g in (one, other)
            )
            np.testing.assert_allclose(*np.broadcast_arrays(one, other), rtol=1e-6, atol=1e-8)


def test_there_are_pairs_of_each() -> None:
    pairs = [
        p for p in product(NAMES, NAMES) if isinstance(divergence(ad, NAMES[p[0]][0], NAMES[p[1]][1])[0], np.ndarray)
    ]
    assert len(pairs) > 70


def test_all_of_pytorchs_pairs_are_here() -> None:
    from adjoint.distributions.kl.registry import _REGISTRY

    ours = {(p.__name__, q.__name__) for p, q in _REGISTRY}
    assert {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY} <= ours


def test_the_nearest_classes_formula_is_taken() -> None:
    from adjoint.distributions import Normal, kl, kl_divergence, register_kl

    class Mine(Normal):
        pass

    @register_kl(Mine, Normal)
    def left(p: Any, q: Any) -> str:
        return "left"

    try:
        assert kl_divergence(Mine(0.0, 1.0), Normal(0.0, 1.0)) == "left"
        assert kl_divergence(Normal(0.0, 1.0), Mine(0.0, 1.0)).item() == 0.0

        @register_kl(Normal, Mine)
        def right(p: Any, q: Any) -> str:
            return "right"

        with pytest.warns(RuntimeWarning, match=r"Please register_kl\(Mine, Mine\)"):
            assert kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0)) == "left"
    finally:
        for pair in ((Mine, Normal), (Normal, Mine)):
            kl.registry._REGISTRY.pop(pair, None)
        kl.registry._DISPATCH_CACHE.clear()


def test_only_classes_are_registered() -> None:
    with pytest.raises(TypeError, match="Expected type_p to be a Distribution subclass"):
        ad.distributions.register_kl(1, float)
