"""Activation functions that shrink and gate, against PyTorch: values, gradients at kinks and edges, errors."""

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint as ad
import adjoint.nn.functional as F

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 6)) * 3
X[0, 0, :5] = [0, 0.5, -0.5, 3, -3]
EDGES = np.array([np.inf, 0.0, -0.0, 3.0, -3.0, 0.5, -0.5, 100.0, -100.0])
W = RNG.normal(size=6)


@pytest.mark.parametrize("call", [
    "celu(x)", "celu(x, 0.5)", "celu(x * 1, 0.5, True)", "hardshrink(x)", "hardshrink(x, 0.7)", "softshrink(x)",
    "softshrink(x, 0.0)", "softsign(x)", "hardswish(x)", "hardswish(x * 1, True)", "mish(x)", "mish(x * 1, True)",
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_element_by_element(call: str, dtype: type) -> None:
    for x in (X, EDGES):
        same(f"t.nn.functional.{call}", x=x.astype(dtype), factor=4)


@pytest.mark.parametrize("call", ["hardsigmoid(x)", "hardsigmoid(x * 1, True)"])
def test_hardsigmoid(call: str) -> None:
    for x in (X, EDGES):
        same(f"t.nn.functional.{call}", x=x.astype(np.float32))


def test_nan_stays() -> None:
    for name in ("celu", "hardshrink", "softshrink", "softsign", "hardsigmoid", "hardswish", "mish"):
        same(f"t.nn.functional.{name}(x)", x=np.array([np.nan, 1.0], np.float32), gradient=False)


@pytest.mark.parametrize("call", ["glu(x)", "glu(x, 1)", "glu(x, 0)", "glu(x[0, 0, 0])", "glu(x, dim=3)"])
def test_glu(call: str) -> None:
    same(f"t.nn.functional.{call}", x=X)


def test_prelu() -> None:
    for x, w in ((X, W[:4]), (X, W[:1]), (X, W[:3]), (X[0, 0], W[:1]), (X[0], W), (X[0, 0, 0], W[:1]), (X, W[:0])):
        same("t.nn.functional.prelu(x, w)", x=np.asarray(x), w=w)
    same("t.nn.functional.prelu(x, w[0])", x=X, w=W)


def test_errors() -> None:
    same_error("t.nn.functional.softshrink(x, -1.0)", "lambda must be in range [0, ", x=X)
    same_error("t.nn.functional.celu(x, 0.0)", "alpha cannot be 0 for CELU", x=X)
    same_error("t.nn.functional.glu(x, 0)", "Halving dimension must be even, but dimension 0 is size 3", x=X)
    same_error("t.nn.functional.prelu(x, w)", "Mismatch of parameter numbers and input channel size.", x=X, w=W)


@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_integers_are_refused(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"{name}: not implemented for"):
        getattr(F, name)(ad.arange(3))
