"""Limits by numbers and tensors, eager and compiled: NaN in an element or a bound gives NaN, a zero keeps its sign."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad

NAN, INF = math.nan, math.inf
ELEMENTS = [-0.0, 0.0, NAN, INF, -INF, 1.0, -1.0, 2.0, -0.5]
BOUNDS = [None, -0.0, 0.0, NAN, INF, -INF, 1.0, -1.0]
DTYPES = [ad.float16, ad.float32, ad.float64]
SIZES = [1, 9, 20_000]  # of which NumPy and the routines of small arrays take some each


def limit(x: float, low: float | None, high: float | None) -> float:
    """`torch.clamp` of one element: the first of NaN, and what equals a bound stays as it is."""
    for bound in (low, high):
        if x != x or (bound is not None and bound != bound):
            return NAN
    out = low if low is not None and x < low else x
    return high if high is not None and out > high else out


def same_bits(ours: Any, theirs: list[float]) -> bool:
    ours = ours.numpy()
    wanted = np.resize(np.array(theirs, ours.dtype), ours.shape)
    nan = np.isnan(wanted)
    same_signs = np.signbit(ours[~nan]) == np.signbit(wanted[~nan])
    return bool((np.isnan(ours) == nan).all() and (ours[~nan] == wanted[~nan]).all() and same_signs.all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("low", "high"), [b for b in itertools.product(BOUNDS, BOUNDS) if b != (None, None)])
def test_clamp(low: float | None, high: float | None, dtype: Any) -> None:
    wanted = [limit(x, low, high) for x in ELEMENTS]
    forms = [lambda x: x.clamp(low, high), lambda x: ad.clip(x, low, high), lambda x: x.clone().clamp_(low, high)]
    for size in SIZES:
        x = ad.from_numpy(np.resize(np.array(ELEMENTS), size)).to(dtype)
        for form in forms:
            assert same_bits(form(x), wanted[:size])
        if size == len(ELEMENTS):
            assert same_bits(ad.compile(forms[0])(x), wanted)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_clamp_by_tensors_is_the_same_in_a_compiled_step(dtype: Any) -> None:
    both = list(itertools.product(BOUNDS[1:], BOUNDS[1:]))
    x = ad.tensor(ELEMENTS, dtype=dtype)[:, None]
    low, high = (ad.tensor([b[i] for b in both], dtype=dtype) for i in (0, 1))
    for form in (lambda x: x.clamp(low, high), lambda x: x.clamp(min=low), lambda x: x.clamp(max=high)):
        assert same_bits(ad.compile(form)(x), form(x).flatten().tolist())
    nan = [limit(e, *b) != limit(e, *b) for e in ELEMENTS for b in both]
    assert x.clamp(low, high).isnan().flatten().tolist() == nan


@pytest.mark.parametrize("low", [NAN, 0.5])
def test_the_gradient_of_a_bound_that_is_nan_is_0(low: float) -> None:
    x = ad.tensor([0.0, 1.0], requires_grad=True)
    for function in (lambda x: x.clamp(min=low).sum(), ad.compile(lambda x: x.clamp(min=low).sum())):
        (gradient,) = ad.autograd.grad(function(x), x)
        assert gradient.tolist() == [0.0, 0.0 if low != low else 1.0]


def test_a_bound_that_becomes_nan_between_calls() -> None:
    limited = ad.compile(lambda x, low: x.clamp(min=low))
    for low in (0.25, 0.5, NAN, 0.75, NAN):
        assert same_bits(limited(ad.tensor([0.0, 1.0]), low), [limit(0.0, low, None), limit(1.0, low, None)])


def test_integers_with_a_bound_that_is_nan_become_floats_of_nan() -> None:
    out = ad.tensor([1, 2]).clamp(max=NAN)
    assert out.dtype == ad.float32
    assert same_bits(out, [NAN, NAN])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_relu(dtype: Any) -> None:
    x = ad.tensor(ELEMENTS, dtype=dtype)
    for form in (ad.relu, ad.compile(ad.relu), lambda x: ad.relu_(x.clone())):
        assert same_bits(form(x), [limit(e, 0.0, None) for e in ELEMENTS])


def test_where_of_arrays_that_are_not_small() -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.normal(size=(30, 70, 40)).astype(np.float32) for _ in range(2))
    gapped = x.T.copy().T
    masks = [x > 0, x[:, :, :1] > 0, x[:1] > 0, x[0] > 0, x[0, 0] > 0, np.asarray(True), gapped > 0]
    for mask in masks:
        for a, b in ((x, y), (x, y[0, 0]), (x[:, :1], y), (x, y[0, 0, :1]), (gapped, y)):
            got = ad.where(ad.from_numpy(mask), ad.from_numpy(a), ad.from_numpy(b))
            np.testing.assert_array_equal(got.numpy(), np.where(mask, a, b))
            got = ad.where(ad.from_numpy(mask), ad.from_numpy(a), 2.5)
            np.testing.assert_array_equal(got.numpy(), np.where(mask, a, np.float32(2.5)))
