"""Elementwise ops and folds on numbers at the edge: compiled, each element is what it is eagerly, to a few units."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.samples import SAMPLES, Sample
from tests.support.threads import in_another_thread

import adjoint as ad
import adjoint.nn.functional as F

pytest.importorskip("llvmlite")
TAILS = [0, 1, 7, 8, 9, 67]  # around the width of a vector
FLOATS = [
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-40, -1e-40, 1e-45, 1e-20, -1e-8, 1e-3, 88.0,
    -104.0, 700.0, 3e38, -3e38,
]  # fmt: skip
WHOLE = [0, 1, -1, 2, -3, 7, 100, -128, 127]
ULPS = 4
ELEMENTWISE = ("unary", "binary", "elementwise")
OPS: dict[str, Sample] = {}
for _sample in SAMPLES:
    if _sample.op.family in ELEMENTWISE and "order" not in _sample.op.params:  # which is one of dimensions
        OPS.setdefault(f"{_sample.op.evaluate.__module__.rpartition('.')[2]}.{_sample.op.evaluate.__name__}", _sample)
OF_INTEGERS = {name for name in OPS if "bitwise" in name or name in ("elementary.gcd", "elementary.lcm")}


def numbers(kind: str, count: int, at: int, of: int) -> Any:
    """`count` numbers at the edge; over the inputs 0, 1, … of `of` they make all pairs while there is room."""
    edges = WHOLE if kind[0] in "iu" else [False, True] if kind == "bool" else FLOATS
    chosen = [p[at] for p in itertools.islice(itertools.product(edges, repeat=of), len(edges) ** min(of, 2))]
    with np.errstate(all="ignore"):
        cycled = np.array(list(itertools.islice(itertools.cycle(chosen), max(count, 1)))).astype(kind)
    return cycled[:count]


def inputs_of(sample: Sample, kind: str, count: int) -> list[Any]:
    """The sample's inputs, its floating and whole arrays replaced."""
    places = [i for i, x in enumerate(sample.inputs) if isinstance(x, np.ndarray) and x.dtype.kind != "b"]
    made = []
    for i, x in enumerate(sample.inputs):
        if i in places:
            made.append(ad.from_numpy(numbers(kind, count, places.index(i), len(places))))
        elif isinstance(x, np.ndarray):
            made.append(ad.from_numpy(numbers("bool", count, 0, 1)))
        else:
            made.append(x)
    return made


def agree(function: Callable[..., Any], inputs: list[Any], ulps: float = ULPS, signs: bool = True) -> None:
    """Assert that compiling changes no element, or the error."""
    with np.errstate(all="ignore"):
        try:
            expected = function(*inputs).detach().numpy()
        except Exception as error:  # noqa: BLE001  whichever it is, it is compared
            with pytest.raises((RuntimeError, type(error))):
                ad.compile(function)(*inputs)
            return
        close(ad.compile(function)(*inputs).detach().numpy(), expected, ulps, signs)


def close(ours: Any, expected: Any, ulps: float, signs: bool = True) -> None:
    """Assert equal types, NaN, infinities and, if asked, signs of zeros, and every other element within some units."""
    assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(ours, expected)
        return
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(expected))
    zero = (expected == 0) & signs
    np.testing.assert_array_equal(np.signbit(ours[zero]), np.signbit(expected[zero]))
    known = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(ours), known)
    with np.errstate(all="ignore"):
        off = np.abs(ours[known] - expected[known]) / np.spacing(np.abs(expected[known]))
    np.testing.assert_array_less(off, ulps + 1e-9)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("name", OPS)
def test_edges(name: str, kind: str) -> None:
    sample = OPS[name]
    agree(lambda *xs: sample.function(*xs, **sample.settings()), inputs_of(sample, kind, 441))


@pytest.mark.sweep(4)
@pytest.mark.parametrize("count", TAILS)
@pytest.mark.parametrize("name", OPS)
def test_tails(name: str, count: int) -> None:
    sample = OPS[name]
    kind = "int64" if name in OF_INTEGERS else "float32"
    agree(lambda *xs: sample.function(*xs, **sample.settings()), inputs_of(sample, kind, count))


FOLDS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(), "sum of rows": lambda x: x.sum(-1), "sum of columns": lambda x: x.sum(0),
    "amax": lambda x: ad.amax(x, -1), "amin": lambda x: ad.amin(x, 0), "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "max of rows": lambda x: x.max(-1)[0], "argmax": lambda x: x.argmax(-1), "argmin": lambda x: x.argmin(),
    "prod": lambda x: x.prod(-1), "any": lambda x: x.any(-1), "all": lambda x: x.all(0), "mean": lambda x: x.mean(-1),
    "cumsum": lambda x: x.cumsum(-1), "cummax": lambda x: ad.cummax(x, -1)[0], "sort": lambda x: ad.sort(x, -1)[0],
    "logsumexp": lambda x: ad.logsumexp(x, -1), "softmax": lambda x: F.softmax(x, -1), "nansum": ad.nansum,
    "log_softmax": lambda x: F.log_softmax(x, -1), "var": lambda x: x.var(-1), "norm": lambda x: ad.norm(x, 2, -1),
    "median": lambda x: x.median(), "count_nonzero": lambda x: ad.count_nonzero(x, -1),
}  # fmt: skip
ROWS = [[1.0, -2.0, 0.5], [np.nan, 1.0, 2.0], [np.inf, -1.0, 1.0], [-np.inf, np.inf, 0.0], [-np.inf, -np.inf, -np.inf],
        [0.0, -0.0, 0.0], [-0.0, -0.0, -0.0], [1e-40, 1e-40, -1e-45], [3e38, 2e38, 1.0],
        [88.0, -88.0, 89.0]]  # fmt: skip


@pytest.mark.sweep(3)  # each function with rows of one length
@pytest.mark.parametrize("repeated", [1, 3, 23])
@pytest.mark.parametrize("name", FOLDS)
def test_folds(name: str, repeated: int) -> None:
    # the sign of a zero that sums or ties make is in NumPy that of whichever came first in memory
    for k in (0, 5, len(ROWS)):
        rows = np.array(ROWS[:1] * 9 if k == 0 else ROWS[k:] or ROWS, np.float32)
        x = ad.from_numpy(np.tile(rows, (1, repeated)))
        agree(FOLDS[name], [x], 64 if repeated > 1 else 8, signs=False)
        agree(FOLDS[name], [x.mT], 64, signs=False)  # not contiguous


KINKS: dict[str, Callable[..., Any]] = {
    "relu": lambda x, y: x.relu(), "maximum": ad.maximum, "minimum": ad.minimum, "clamp": lambda x, y: x.clamp(-1, 1),
    "clamp by tensors": lambda x, y: ad.clamp(x, y, y + 1), "abs": lambda x, y: x.abs(),
    "amax": lambda x, y: x.amax(-1),
    "where": lambda x, y: ad.where(y > 0, x.sqrt(), 0.0), "sign": lambda x, y: x.sign() * x,
    "x - x": lambda x, y: x - x,
    "x / x": lambda x, y: x / x, "x * 0": lambda x, y: x * 0, "x + 0": lambda x, y: x + 0, "0 - x": lambda x, y: 0 - x,
    "isnan": lambda x, y: x * x.isnan(), "x != x": lambda x, y: y * (x != x), "hardtanh": lambda x, y: F.hardtanh(x),
    "leaky_relu": lambda x, y: F.leaky_relu(x, 0.1), "x ** 0": lambda x, y: x**0, "x ** 1": lambda x, y: x**1,
    "-(-x)": lambda x, y: (-x).neg(), "x * 1": lambda x, y: x * 1, "square": lambda x, y: (-x).square(),
    "norm": lambda x, y: ad.norm(x, 2, -1), "pow": ad.pow, "threshold": lambda x, y: F.threshold(x, 0.5, 0.25),
    **{f"x ** {n}": (lambda x, y, n=n: x**n) for n in (-2, -1, -0.5, 0.5, 1.5, 2, 3, 4)}, "acos": lambda x, y: x.acos(),
    "asin": lambda x, y: x.asin(), "atanh": lambda x, y: x.atanh(), "acosh": lambda x, y: x.acosh(), "xlogy": ad.xlogy,
    "xlogy of a number": lambda x, y: ad.xlogy(x, 2.0), "logaddexp": ad.logaddexp, "hypot": ad.hypot, "atan2": ad.atan2,
    "logsumexp": lambda x, y: ad.logsumexp(x, -1), "max": lambda x, y: x.max(-1)[0], "sqrt": lambda x, y: x.sqrt(),
}  # fmt: skip


@pytest.mark.parametrize("name", KINKS)
def test_values_and_gradients_at_kinks(name: str) -> None:
    """NaN goes through, nothing is folded that NaN, infinities or signed zeros tell apart, ties share alike."""

    def both(x: Any, y: Any) -> Any:
        x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
        out = KINKS[name](x, y)
        grads = ad.autograd.grad(out.sum(), [x, y], allow_unused=True, materialize_grads=True)
        return ad.cat([out.reshape(-1), *(g.reshape(-1) for g in grads if g is not None)])

    x = ad.from_numpy(numbers("float32", 441, 0, 2).reshape(21, 21))
    y = ad.from_numpy(numbers("float32", 441, 1, 2).reshape(21, 21))
    agree(both, [x, y])


NEAR_ZERO = ["expm1", "erf", "log1p", "tanh", "sin", "sinh", "atan", "asinh", "tan"]


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", NEAR_ZERO)
def test_accuracy_near_zero(name: str, kind: str) -> None:
    mpmath = pytest.importorskip("mpmath")
    steps = np.linspace(-1, 1, 68) + 0.003
    x = np.concatenate([steps * 10.0**-k for k in (1, 2, 3, 5, 8, 20, 37)]).astype(kind)
    got = ad.compile(getattr(ad, name))(ad.from_numpy(x)).numpy()
    with mpmath.workdps(60):
        exact = [getattr(mpmath, name)(mpmath.mpf(float(v))) for v in x]
        off = [float(abs(mpmath.mpf(float(g)) - e)) for g, e in zip(got, exact, strict=True)]
    np.testing.assert_array_less(off, ULPS * np.spacing(np.abs(got)).astype(np.float64))


@pytest.mark.parametrize("name", [*NEAR_ZERO, "exp", "log", "sigmoid", "cos", "exp2", "erfc", "rsqrt", "sqrt"])
def test_one_element_is_computed_as_many_are(name: str) -> None:
    x = ad.from_numpy(np.linspace(0.01, 3, 67, dtype=np.float32))
    compiled = ad.compile(getattr(ad, name))
    many = compiled(x)
    for at in (0, 1, 31, 63, 64, 66):
        one, nine = compiled(x[at : at + 1].clone()), compiled(x[at].expand(9).clone())
        close(one.numpy(), many[at : at + 1].numpy(), ULPS)
        close(nine.numpy(), many[at].expand(9).numpy(), ULPS)


@pytest.mark.parametrize("over", ["all", "rows", "columns"])
def test_a_long_sum_is_accurate(over: str) -> None:
    x = ad.full((10_000_000,), 0.1)
    fold = {
        "all": lambda x: x.sum(), "rows": lambda x: x.reshape(10, -1).sum(1).sum(),
        "columns": lambda x: (x.reshape(-1, 10) * 1).sum(0).sum(),
    }[over]  # fmt: skip
    assert ad.compile(fold)(x).item() == pytest.approx(1e7 * float(np.float32(0.1)), rel=1e-6)


def test_denormals_are_kept_in_every_thread_and_no_mode_of_the_processor_changes() -> None:
    tiny = ad.full((67,), 1e-40)
    compiled = ad.compile(lambda x: (x * 1.0, x.log(), x > 0, x * float("inf"), x / 1e-40))
    expected = [t.numpy() for t in (tiny * 1.0, tiny.log(), tiny > 0, tiny * float("inf"), tiny / 1e-40)]
    found: list[Any] = []

    def work() -> None:
        found.extend(t.numpy() for t in compiled(tiny))
        found.append(np.float32(1e-40) * np.ones(3, np.float32))  # after native code

    work()
    in_another_thread(work)
    for got, want in zip(found, [*expected, np.full(3, 1e-40, np.float32)] * 2, strict=True):
        close(got, want, ULPS)
