"""exp, sin, erf and their kin: errors in units in the last place, special values, equal bits in every lane count."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from tests.support.kernels.lanes import Array, different, evaluate, native_lanes, same_bits

Function = Callable[[Array], Array]


def pointwise(function: Callable[[float], float]) -> Function:
    return lambda x: np.array([function(float(v)) for v in x], x.dtype)


def sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


REFERENCES: dict[str, Function] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "sigmoid": sigmoid, "silu": lambda x: x * sigmoid(x),
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": pointwise(math.erf), "erfc": pointwise(math.erfc),
}  # fmt: skip
LARGEST_ERROR = {
    "f4": dict.fromkeys(REFERENCES, 0.6)
    | {"exp": 1.1, "expm1": 0.9, "sinh": 0.9, "log": 0.9, "erf": 1.0, "tanh": 2.6, "sigmoid": 2.3, "silu": 2.9},
    "f8": dict.fromkeys(REFERENCES, 2.0) | {"tanh": 2.6, "sigmoid": 2.3, "silu": 3.0},
}
WIDER = {"f4": np.float64, "f8": np.longdouble}
ENDS = [
    0.0, np.inf, np.nan, 1.0, 0.5, 2.0, 1e-45, 1e-38, 1.17549435e-38, 3.4e38, 3.4028235e38, 88.72284, 87.33655, 103.97,
    104.0, 89.0, 9.01, 4.0, 0.88, 10.05, 10.3, 150.0, 128.0, 127.99999, 0.9999999, 1.0000001, 2.0**30, 2.0**31, 1e22,
    5e-324, 2.3e-308, 745.2, 708.5, 709.78, 709.79, 746.0, 1.7e308, 22.0, 37.0, 3.925,
]  # fmt: skip


def samples(dtype: str) -> Array:
    """The ends of every range, random bits, dense stretches, and the neighbourhood of multiples of pi/2."""
    rng = np.random.default_rng(3)
    count = 20_000 if dtype == "f4" else 4_000
    bits = rng.integers(0, 2**63, count, dtype=np.uint64) << np.uint64(1)
    drawn = [bits.view(dtype), *(rng.uniform(-a, a, count) for a in (1.1, 12, 110, 720, 1e6))]
    drawn += [np.arange(1, 2000) * (np.pi / 2), rng.choice([-1, 1], count) * 10.0 ** rng.uniform(-40, 38, count)]
    with np.errstate(over="ignore"):
        ends = np.array(ENDS).astype(dtype)
        return np.concatenate([ends, -ends, *(values.astype(dtype) for values in drawn)])


def errors(got: Array, want: Array) -> Array:
    """Distance from a more precise value in units of the last place; infinite for a wrong NaN, infinity or sign."""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        distance = np.abs(got.astype(want.dtype) - want) / np.spacing(np.abs(rounded)).astype(want.dtype)
        # One step short of infinity is an error of one unit; at its border the two may differ so.
        edge = np.isinf(rounded) != np.isinf(got)
        near = np.abs(want) > np.finfo(got.dtype).max * want.dtype.type(1 - 1e-7)
    distance = np.where(edge & near, 1, distance)
    distance = np.where(np.isinf(rounded) & (got == rounded), 0, distance)
    distance = np.where(np.isnan(rounded) & np.isnan(got), 0, distance)
    wrong_sign = (rounded == 0) & (got == 0) & (np.signbit(rounded) != np.signbit(got))
    return np.where(np.isnan(distance) | wrong_sign, np.inf, distance)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_errors_and_equal_bits_in_every_lane(dtype: str) -> None:
    wider = WIDER[dtype]
    if np.finfo(wider).eps >= np.finfo(dtype).eps:
        pytest.skip("no wider float to judge by")
    x = samples(dtype)
    expressions = {name: lambda b, v, name=name: getattr(b, name)(v) for name in REFERENCES}
    vector, scalar = evaluate(expressions, [x], native_lanes(dtype)), evaluate(expressions, [x], 1)
    for name, reference in REFERENCES.items():
        with np.errstate(all="ignore"):
            # The wider type reaches where 1 + e is 1, which in the narrow one would be a different sum.
            want = reference(x.astype(wider))
        error = errors(vector[name], want)
        if name == "silu" and dtype == "f8":
            # sigmoid(x) is denormal there, and x times its last digit is many of the product's.
            error = error[x > -700]
        worst = int(error.argmax())
        assert error[worst] <= LARGEST_ERROR[dtype][name], (
            f"{name}({x[worst]!r}) is {vector[name][worst]!r} for {want[worst]!r}, {error[worst]:.3f} units"
        )
        assert same_bits(vector[name], scalar[name]), f"{name}: {different(vector[name], scalar[name], x)}"


def test_silu_at_minus_infinity_is_the_product_it_stands_for() -> None:
    x = np.array([-np.inf, np.inf, -1e30, -0.0], "f4")
    got = evaluate({"silu": lambda b, v: b.silu(v)}, [x], native_lanes("f4"))["silu"]
    assert same_bits(got, np.array([np.nan, np.inf, -0.0, -0.0], "f4"))


POWERS = [
    0.0, np.inf, np.nan, 1.0, 0.5, 2.0, 3.0, 2.5, 1e-45, 3e38, 16777215.0, 16777216.0, 16777218.0, 0.99999994,
    1.0000001, 150.0, 0.1,
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_power_and_angle(dtype: str) -> None:
    rng = np.random.default_rng(5)
    count = 20_000
    ends = np.array([*POWERS, *(-v for v in POWERS)], dtype)
    x, y = (v.ravel() for v in np.meshgrid(ends, ends))
    bits = (rng.integers(0, 2**63, 2 * count, dtype=np.uint64) << np.uint64(1)).view(dtype)
    bases = [np.abs(rng.standard_normal(count)) * 3, rng.uniform(0.9, 1.1, count)]
    exponents = [rng.uniform(-40, 40, count), rng.uniform(-800, 800, count)]
    x = np.concatenate([x, bits[:count], *(v.astype(dtype) for v in bases)])
    y = np.concatenate([y, bits[-count:], *(v.astype(dtype) for v in exponents)])
    expressions = {"pow": lambda b, x, y: b.pow(x, y), "atan2": lambda b, x, y: b.atan2(x, y)}
    vector, scalar = evaluate(expressions, [x, y], native_lanes(dtype)), evaluate(expressions, [x, y], 1)
    for name, reference in {"pow": np.power, "atan2": np.arctan2}.items():
        with np.errstate(all="ignore"):
            want = reference(x.astype(WIDER[dtype]), y.astype(WIDER[dtype]))
            exact = reference(x, y)
        error = errors(vector[name], want)
        worst = int(error.argmax())
        assert error[worst] <= (0.6 if dtype == "f4" else 1.5), (name, x[worst], y[worst], vector[name][worst])
        assert same_bits(vector[name], scalar[name])
        # Where NumPy gives zero, infinity, NaN or one for a reason other than rounding, so do we.
        special = slice(0, ends.size**2)
        assert np.array_equal(np.isnan(exact[special]), np.isnan(vector[name][special]))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_angles(name: str) -> None:
    mpmath = pytest.importorskip("mpmath")
    # 16367173 * 2^72 is the float32 closest to a multiple of pi/2.
    x = np.array([16367173.0 * 2.0**72, 3.4028235e38, 2.0**30, 2.0**127, 1e10, -1e20, 7.5e37], "f4")
    with mpmath.workprec(300):
        want = np.array([float(getattr(mpmath, name)(mpmath.mpf(float(v)))) for v in x])
    got = evaluate({name: lambda b, v: getattr(b, name)(v)}, [x], native_lanes("f4"))[name]
    assert errors(got, want).max() <= 0.6
