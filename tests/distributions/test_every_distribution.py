"""Each distribution against PyTorch's: densities, moments, samples of a seed, gradients, shapes, printing."""

import warnings
from typing import Any

import numpy as np
import pytest
from tests.support.distributions import CASES, Case
from tests.support.errors import assert_raises, errors_of

import adjoint as ad

torch: Any = pytest.importorskip("torch")
EITHER = pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
PROPERTIES = ("mean", "variance", "stddev", "mode", "has_rsample", "has_enumerate_support", "support")
PROPERTIES += ("batch_shape", "event_shape", "arg_constraints")
WARNED = "ignore::UserWarning"  # both say so of singular samples


def both(case: Case) -> list[tuple[Any, Any, dict[str, Any]]]:
    """The library, the distribution and its parameters: ours and PyTorch's."""
    return [(library, *made(library, case)) for library in (ad, torch)]


def made(library: Any, case: Case, dtype: str = "") -> tuple[Any, dict[str, Any]]:
    kind = getattr(library, dtype or case.dtype)
    leaves = {n: library.tensor(v, dtype=kind, requires_grad=True) for n, v in case.parameters.items()}
    return eval(case.make, {"d": library.distributions, **leaves}), leaves


def outcome(compute: Any) -> Any:
    """What it returns, as an array or text, or the class of what it raises."""
    try:
        found = compute()
    except (NotImplementedError, ValueError) as error:
        return type(error).__name__
    if hasattr(found, "detach"):
        return found.detach().numpy()
    if isinstance(found, tuple | bool):
        return tuple(found) if isinstance(found, tuple) else found
    return " ".join(repr(found).replace("torch.", "adjoint.").split())


def asked(library: Any, case: Case) -> Any:
    return library.tensor(case.value, dtype=getattr(library, case.dtype))


def same(ours: Any, theirs: Any, rtol: float = 1e-6) -> None:
    assert type(ours) is type(theirs)
    if isinstance(ours, np.ndarray):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        narrow = ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, rtol=max(rtol, 1e-5 * narrow), atol=1e-5 if narrow else 1e-9)
    else:
        assert ours == theirs


def gradients(library: Any, result: Any, leaves: dict[str, Any]) -> list[Any]:
    if not result.requires_grad or not leaves:
        return []
    weights = library.linspace(0.5, 1.5, result.numel(), dtype=result.dtype).reshape(result.shape)
    try:
        found = library.autograd.grad((result * weights).sum(), list(leaves.values()), allow_unused=True)
    except (RuntimeError, NotImplementedError) as error:
        return [type(error).__name__]
    return [None if g is None else g.numpy() for g in found]


def same_gradients(ours: Any, theirs: Any, rtol: float = 1e-5) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(one, str):
            assert one == other
        elif one is None or other is None:
            assert one is other or not np.any(one if other is None else other)
        else:
            np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-5 if one.dtype == np.float32 else 1e-7)


@EITHER
def test_log_prob_and_its_gradients(case: Case) -> None:
    results = []
    for library, distribution, leaves in both(case):
        value = asked(library, case).requires_grad_()
        result = distribution.log_prob(value)
        slopes = gradients(library, result, {**leaves, "value": value})
        if "scale_tril" in case.make:  # PyTorch's reach above the diagonal, which is not read
            slopes[1] = np.tril(slopes[1])
        results.append((result.detach().numpy(), slopes))
    same(results[0][0], results[1][0])
    same_gradients(results[0][1], results[1][1])


@pytest.mark.sweep(3)
@EITHER
@pytest.mark.parametrize("name", PROPERTIES)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_property(case: Case, name: str) -> None:
    ours, theirs = (outcome(lambda d=d: getattr(d, name)) for _, d, _ in both(case))
    same(ours, theirs)


@EITHER
@pytest.mark.parametrize("name", ["entropy", "perplexity", "cdf", "icdf"])
def test_method(case: Case, name: str) -> None:
    results = []
    for library, distribution, leaves in both(case):
        value = asked(library, case)
        value = value.sigmoid() if name == "icdf" else value
        arguments = (value,) if name.endswith("cdf") else ()
        compute = getattr(distribution, name)
        found = outcome(lambda c=compute, a=arguments: c(*a))
        slopes = [] if isinstance(found, str) else gradients(library, compute(*arguments), leaves)
        results.append((found, slopes))
    same(results[0][0], results[1][0])
    same_gradients(results[0][1], results[1][1])


@pytest.mark.sweep(3)
@EITHER
@pytest.mark.parametrize("shape", [(), (4, 2), (300,)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings(WARNED)
def test_samples_of_a_seed(case: Case, shape: tuple[int, ...], dtype: str) -> None:
    samples = []
    for library in (ad, torch):
        distribution, _ = made(library, case, dtype)
        library.manual_seed(7)
        first = distribution.sample(shape)
        assert not first.requires_grad
        samples.append((first.numpy(), distribution.sample(shape).numpy()))
    for ours, theirs in zip(*samples, strict=True):
        same(ours, theirs, rtol=2e-4 if dtype == "float32" else 1e-6)


@EITHER
@pytest.mark.filterwarnings(WARNED)
def test_gradients_of_rsample(case: Case) -> None:
    results = []
    for library, distribution, leaves in both(case):
        if not distribution.has_rsample:
            results.append(([], []))
            continue
        library.manual_seed(3)
        sample = distribution.rsample((5,))
        results.append((sample.detach().numpy(), gradients(library, sample, leaves)))
    same(*(r[0] for r in results))
    if case.make.startswith("d.Wishart"):  # of which PyTorch writes over what its gradient needs
        assert results[1][1] == ["RuntimeError"]
    else:
        same_gradients(*(r[1] for r in results), rtol=1e-4)


def test_gradient_of_a_wishart_sample() -> None:
    def sample(factor: Any) -> Any:
        ad.manual_seed(3)
        return ad.distributions.Wishart(4.5, scale_tril=factor, validate_args=False).rsample((2,))

    factor = ad.tensor(CASES["Wishart factor"].parameters["b"], dtype=ad.float64, requires_grad=True)
    assert ad.autograd.gradcheck(sample, factor)


@EITHER
@pytest.mark.filterwarnings(WARNED)
def test_expand(case: Case) -> None:
    results = []
    for library, distribution, _ in both(case):
        value = asked(library, case)
        batch = value.shape[: value.dim() - len(distribution.event_shape)]
        shape = (5, *np.broadcast_shapes(tuple(batch), tuple(distribution.batch_shape)))
        wide = distribution.expand(shape)
        assert tuple(wide.batch_shape) == shape
        assert type(wide) is type(distribution)
        library.manual_seed(5)
        results.append((wide.log_prob(value).detach().numpy(), wide.sample((2,)).numpy(), printed(wide)))
    same(results[0][0], results[1][0])
    same(results[0][1], results[1][1])
    assert results[0][2] == results[1][2]


@EITHER
def test_repr(case: Case) -> None:
    ours, theirs = (printed(d) for _, d, _ in both(case))
    assert ours == theirs


def printed(distribution: Any) -> str:
    return repr(distribution).replace("torch.", "adjoint.")


@EITHER
def test_enumerate_support(case: Case) -> None:
    for expand in (True, False):
        same(*(outcome(lambda d=d, e=expand: d.enumerate_support(e)) for _, d, _ in both(case)))


BAD = {
    "negative scale": "d.Normal(0.0, t([1.0, -1.0]))", "nan": "d.Normal(float('nan'), 1.0)",
    "empty interval": "d.Uniform(1.0, 0.0)", "probs": "d.Bernoulli(t([0.5, 1.5]))", "both": "d.Bernoulli(0.5, 0.5)",
    "neither": "d.Categorical()", "scalar probs": "d.Categorical(t(0.5))",
    "negative probs": "d.Categorical(t([-0.5, 1.0]))", "no number": "d.Normal('0', 1.0)",
    "counts": "d.Binomial(-1, 0.5)", "asymmetric": "d.MultivariateNormal(t([0.0, 0.0]), t([[1.0, 0.5], [0.2, 1.0]]))",
    "indefinite": "d.MultivariateNormal(t([0.0, 0.0]), t([[1.0, 2.0], [2.0, 1.0]]))",
    "not triangular": "d.MultivariateNormal(t([0.0, 0.0]), scale_tril=t([[1.0, 2.0], [2.0, 1.0]]))",
    "scalar loc": "d.MultivariateNormal(t(0.0), t([[1.0]]))",
    "two matrices": "d.MultivariateNormal(t([0.0]), t([[1.0]]), t([[1.0]]))",
    "vector": "d.MultivariateNormal(t([0.0]), t([1.0]))",
    "shapes": "d.LowRankMultivariateNormal(t([0.0]), t([[1.0], [2.0]]), t([1.0]))",
    "dirichlet": "d.Dirichlet(t([1.0, 0.0]))", "scalar": "d.Dirichlet(t(1.0))", "dimension": "d.LKJCholesky(1)",
    "degrees": "d.Wishart(0.5, t([[1.0, 0.0], [0.0, 1.0]]))", "multinomial": "d.Multinomial(t(2.0), t([0.5, 0.5]))",
    "geometric": "d.Geometric(t([0.0, 0.5]))", "independent": "d.Independent(d.Normal(0.0, 1.0), 1)",
    "mixture": "d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(t([0.0, 1.0]), 1.0))",
    "components": "d.MixtureSameFamily(d.Categorical(t([0.5, 0.5])), d.Normal(t([0.0, 1.0, 2.0]), 1.0))",
    "transforms": "d.TransformedDistribution(d.Normal(0.0, 1.0), 'exp')",
    "list": "d.TransformedDistribution(d.Normal(0.0, 1.0), ['exp'])", "outside": "d.Beta(1.0, 1.0).log_prob(t(1.5))",
    "support": "d.Poisson(1.0).log_prob(t([0.5]))", "sample's type": "d.Normal(0.0, 1.0).log_prob(1.0)",
    "event": "d.Dirichlet(t([1.0, 1.0])).log_prob(t([0.2, 0.3, 0.5]))",
    "batch": "d.Normal(t([0.0, 1.0]), 1.0).log_prob(t([0.0, 1.0, 2.0]))",
    "kl": "d.kl_divergence(d.Normal(0.0, 1.0), d.StudentT(1.0))", "cache": "d.ExpTransform(cache_size=2)",
}  # fmt: skip


@pytest.mark.parametrize("expression", [pytest.param(e, id=name) for name, e in BAD.items()])
def test_error(expression: str) -> None:
    ours, theirs = errors_of(lambda t: eval(expression, {"d": t.distributions, "t": t.tensor}), ad, torch)
    assert type(ours) is type(theirs)
    first = str(theirs).splitlines()[0].replace("torch.Size", "adjoint.Size")
    assert " ".join(str(ours).splitlines()[0].split()) == " ".join(first.split())


def test_checks_can_be_left_out() -> None:
    assert np.isnan(ad.distributions.Normal(0.0, -1.0, validate_args=False).log_prob(ad.tensor(0.0)).item())
    ad.distributions.Distribution.set_default_validate_args(False)
    try:
        ad.distributions.Normal(0.0, -1.0)
    finally:
        ad.distributions.Distribution.set_default_validate_args(__debug__)
    assert_raises(ValueError, "scale", lambda: ad.distributions.Normal(0.0, -1.0))


def test_entropy_of_an_exponential_family_is_its_own() -> None:
    for name in ("Normal", "Gamma", "Exponential", "Bernoulli"):
        distribution, _ = made(ad, CASES[name])
        general = ad.distributions.ExponentialFamily.entropy(distribution)
        np.testing.assert_allclose(general.detach().numpy(), distribution.entropy().detach().numpy(), rtol=1e-9)


def test_a_class_of_others_expands_by_its_own_method() -> None:
    class Shifted(ad.distributions.Normal):
        def __init__(self, by: float) -> None:
            self.by = by
            super().__init__(by, 1.0)

    with pytest.raises(NotImplementedError, match=r"Subclass Shifted of Normal .* custom \.expand\(\)"):
        Shifted(1.0).expand((3,))


def test_sample_n_warns() -> None:
    with pytest.warns(FutureWarning, match="sample_n"):
        assert ad.distributions.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_modules_have_pytorch_names_too() -> None:
    for name in torch.distributions.__all__:
        assert hasattr(ad.distributions, name), name
        home = getattr(torch.distributions, name)
        if isinstance(home, type):
            module = home.__module__.removeprefix("torch.distributions.")
            assert getattr(getattr(ad.distributions, module), name) is getattr(ad.distributions, name)


def test_low_degrees_of_a_wishart_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_raises(UserWarning, "Low df", lambda: ad.distributions.Wishart(1.5, ad.eye(2)))
