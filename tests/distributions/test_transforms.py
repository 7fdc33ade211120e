"""Each transform and constraint against PyTorch's: values, inverses, Jacobians, domains, shapes, printing."""

import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.support.errors import errors_of

import adjoint as ad

torch: Any = pytest.importorskip("torch")


class Case(NamedTuple):
    """A transform and an x of its domain."""

    make: str
    x: object


NUMBERS = [[-1.5, 0.2, 2.0], [0.3, -0.4, 1.1]]
POSITIVE = [[0.5, 0.2, 2.0], [0.3, 1.4, 1.1]]
MATRICES = [[[0.5, 0.2], [-1.0, 0.3]], [[-0.5, 1.2], [0.4, -0.3]]]
CASES = {
    "exp": Case("tr.ExpTransform()", NUMBERS),
    "power": Case("tr.PowerTransform(t(2.5))", POSITIVE),
    "falling power": Case("tr.PowerTransform(t([-1.5, 2.0, 0.5]))", POSITIVE),
    "sigmoid": Case("tr.SigmoidTransform()", NUMBERS),
    "softplus": Case("tr.SoftplusTransform()", NUMBERS),
    "tanh": Case("tr.TanhTransform()", NUMBERS),
    "abs": Case("tr.AbsTransform()", NUMBERS),
    "affine": Case("tr.AffineTransform(1.0, -2.0)", NUMBERS),
    "affine of tensors": Case("tr.AffineTransform(t([1.0, 2.0, 3.0]), t([0.5, -1.0, 2.0]), event_dim=1)", NUMBERS),
    "softmax": Case("tr.SoftmaxTransform()", NUMBERS),
    "stick breaking": Case("tr.StickBreakingTransform()", NUMBERS),
    "correlation": Case("tr.CorrCholeskyTransform()", NUMBERS),
    "lower": Case("tr.LowerCholeskyTransform()", MATRICES),
    "definite": Case("tr.PositiveDefiniteTransform()", MATRICES),
    "reshape": Case("tr.ReshapeTransform((2, 3), (6,))", NUMBERS),
    "independent": Case("tr.IndependentTransform(tr.ExpTransform(), 1)", NUMBERS),
    "compose": Case("tr.ComposeTransform([tr.AffineTransform(0.5, 2.0), tr.TanhTransform()])", NUMBERS),
    "compose of vectors": Case("tr.ComposeTransform([tr.TanhTransform(), tr.StickBreakingTransform()])", NUMBERS),
    "nothing": Case("tr.identity_transform", NUMBERS),
    "cat": Case("tr.CatTransform([tr.ExpTransform(), tr.AffineTransform(1.0, 2.0)], -1, [1, 2])", NUMBERS),
    "cat of vectors": Case(
        "tr.CatTransform([tr.IndependentTransform(tr.ExpTransform(), 1), tr.TanhTransform()], 0)", NUMBERS
    ),
    "stack": Case("tr.StackTransform([tr.ExpTransform(), tr.TanhTransform()], 0)", NUMBERS),
    "cdf": Case("tr.CumulativeDistributionTransform(d.Normal(0.5, 2.0))", NUMBERS),
}
EITHER = pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
EACH_WAY = pytest.mark.parametrize("inverse", [False, True], ids=["forward", "inverse"])


def made(library: Any, make: str) -> Any:
    def t(values: Any) -> Any:
        return library.tensor(values, dtype=library.float64)

    names = {"t": t, "d": library.distributions, "tr": library.distributions.transforms}
    return eval(make, names | {"c": library.distributions.constraints})


def attempt(compute: Any) -> Any:
    """What it gives, or the class of what it raises."""
    try:
        found = compute()
    except (NotImplementedError, ValueError, AssertionError) as error:
        return type(error).__name__
    return found.detach().numpy() if hasattr(found, "detach") else found


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, np.ndarray):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    else:
        assert ours == theirs


@EACH_WAY
@EITHER
def test_values_jacobians_and_gradients(case: Case, inverse: bool) -> None:
    results = []
    for library in (ad, torch):
        transform = made(library, case.make)
        x = library.tensor(case.x, dtype=library.float64)
        if inverse:
            x, transform = transform(x), transform.inv
        x.requires_grad_()
        y = transform(x)
        jacobian = attempt(lambda f=transform, x=x, y=y: f.log_abs_det_jacobian(x, y))
        weights = library.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).reshape(y.shape)
        (slope,) = library.autograd.grad((y * weights).sum(), x)
        results.append((y.detach().numpy(), jacobian, slope.numpy()))
    for ours, theirs in zip(*results, strict=True):
        same(ours, theirs)


@EACH_WAY
@EITHER
def test_what_it_says_of_itself(case: Case, inverse: bool) -> None:
    results = []
    for library in (ad, torch):
        transform = made(library, case.make)
        transform = transform.inv if inverse else transform
        x = library.tensor(case.x, dtype=library.float64)
        shape = tuple(made(library, case.make)(x).shape if inverse else x.shape)
        facts: list[Any] = [repr(transform), transform.bijective, attempt(lambda f=transform: f.sign)]
        for end in ("domain", "codomain"):
            constraint = getattr(transform, end)
            facts += [attempt(lambda c=constraint: f"{type(c).__name__} {c.event_dim}")]
        facts += [tuple(transform.forward_shape(shape)), transform.inv.inv == transform]
        results.append(facts)
    for ours, theirs in zip(*results, strict=True):
        same(ours, theirs)


@EITHER
def test_a_cache_gives_back_the_same_tensor(case: Case) -> None:
    plain = made(ad, case.make)
    cached = plain.with_cache(1)
    x = ad.tensor(case.x, dtype=ad.float64)
    y = cached(x)
    np.testing.assert_array_equal(y.numpy(), plain(x).numpy())
    if plain is not ad.distributions.identity_transform:
        assert cached.inv(y) is x or "Compose" in case.make
    assert cached.with_cache(1) is cached


@EITHER
def test_pickled(case: Case) -> None:
    transform = made(ad, case.make)
    x = ad.tensor(case.x, dtype=ad.float64)
    again = pickle.loads(pickle.dumps(transform))
    np.testing.assert_array_equal(again(x).numpy(), transform(x).numpy())


def test_equality() -> None:
    for library in (ad, torch):
        tr = library.distributions.transforms
        assert tr.ExpTransform() == tr.ExpTransform()
        assert tr.ExpTransform() != tr.TanhTransform()
        assert tr.AffineTransform(1.0, 2.0) == tr.AffineTransform(1.0, 2.0)
        assert tr.AffineTransform(1.0, 2.0) != tr.AffineTransform(1.0, 3.0)
        assert tr.PowerTransform(library.tensor(2.0)).inv == tr.PowerTransform(library.tensor(2.0)).inv
        assert tr.ComposeTransform([tr.ExpTransform()]) == tr.ComposeTransform([tr.ExpTransform()])


ERRORS = {
    "shape": "tr.ReshapeTransform((2, 3), (5,))",
    "mismatch": "tr.ReshapeTransform((2, 3), (6,)).forward_shape((3, 2))",
    "shallow": "tr.StickBreakingTransform().forward_shape(())",
    "triangle": "tr.CorrCholeskyTransform().forward_shape((2,))",
    "square": "tr.CorrCholeskyTransform().inverse_shape((2, 3))",
    "lengths": "tr.CatTransform([tr.ExpTransform()], 0, [1, 2])",
    "length": "tr.CatTransform([tr.ExpTransform()], 0, [1])(t([1.0, 2.0]))",
    "parts": "tr.StackTransform([1])",
    "dims": "tr.IndependentTransform(tr.ExpTransform(), 2)(t([1.0]))",
    "event dims": "tr.StickBreakingTransform().inv.log_abs_det_jacobian, tr.CorrCholeskyTransform().event_dim",
    "unknown": "d.biject_to(c.one_hot)",
    "no constraint": "d.biject_to.register(3, len)",
    "dependent": "c.dependent.check(t(1.0))",
    "undecided": "c.dependent.event_dim",
    "base": "c.independent(1, 1)",
    "negative": "c.independent(c.real, -1)",
}


@pytest.mark.parametrize("expression", [pytest.param(e, id=name) for name, e in ERRORS.items()])
def test_error(expression: str) -> None:
    errors = errors_of(lambda library: made(library, expression), ad, torch)
    assert type(errors[0]) is type(errors[1])
    ours, theirs = (str(e).replace("torch.Size", "adjoint.Size") for e in errors)
    assert ours == theirs


SQUARES = [[[2.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]]
ONES = [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.7]]]
CONSTRAINTS = {
    "c.boolean": [0.0, 1.0, 0.5], "c.one_hot": [[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]], "c.real": [1.0, float("nan")],
    "c.integer_interval(-2, 3)": [-3.0, -2.0, 0.5, 3.0], "c.nonnegative_integer": [-1.0, 0.0, 0.5],
    "c.positive_integer": [0.0, 1.0], "c.real_vector": [[1.0, 2.0], [float("nan"), 1.0]], "c.positive": [0.0, 1.0],
    "c.nonnegative": [0.0, -1.0], "c.greater_than(2.0)": [2.0, 3.0], "c.greater_than_eq(2.0)": [2.0, 1.0],
    "c.less_than(2.0)": [2.0, 1.0], "c.unit_interval": [-0.1, 0.0, 1.0], "c.interval(-1.0, 2.0)": [-1.0, 2.5],
    "c.half_open_interval(-1.0, 2.0)": [-1.0, 2.0], "c.simplex": [[0.5, 0.5], [0.5, 0.6]],
    "c.multinomial(3)": [[1.0, 2.0], [2.0, 2.0]], "c.lower_triangular": [*SQUARES, ONES[0]],
    "c.lower_cholesky": [ONES[0], [[-1.0, 0.0], [0.0, 1.0]]], "c.corr_cholesky": ONES, "c.square": SQUARES,
    "c.symmetric": [SQUARES[0], ONES[0]], "c.positive_semidefinite": SQUARES, "c.positive_definite": SQUARES,
    "c.cat([c.positive, c.real], 0, [1, 2])": [-1.0, 2.0, 3.0], "c.stack([c.positive, c.real], 0)": [-1.0, 2.0],
    "c.independent(c.positive, 1)": [[1.0, 2.0], [-1.0, 1.0]],
}  # fmt: skip


@pytest.mark.parametrize("make", CONSTRAINTS)
def test_constraint(make: str) -> None:
    results = []
    for library in (ad, torch):
        constraint = made(library, make)
        held = constraint.check(library.tensor(CONSTRAINTS[make], dtype=library.float64))
        facts = [held.numpy(), repr(constraint), constraint.is_discrete, constraint.event_dim]
        registries = (library.distributions.biject_to, library.distributions.transform_to)
        facts += [attempt(lambda r=r, c=constraint: " ".join(repr(r(c)).split())) for r in registries]
        results.append(facts)
    for ours, theirs in zip(*results, strict=True):
        same(ours, theirs)
