"""Windows: values of PyTorch for lengths even, odd, single and none, and its errors."""

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.signal import windows

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "exponential": [{}, {"tau": 2.5}, {"sym": False, "center": 1.5}],
    "gaussian": [{}, {"std": 0.7}],
    "general_cosine": [{"a": [0.4, 0.3, 0.2, 0.1]}, {"a": (1.0,)}],
    "general_hamming": [{}, {"alpha": 0.7}],
    "kaiser": [{}, {"beta": 0.5}, {"beta": 0}],
}


@pytest.mark.parametrize("name", windows.__all__)
@pytest.mark.parametrize("length", [0, 1, 2, 7, 10])
@pytest.mark.parametrize("sym", [True, False])
def test_values_are_pytorchs(name: str, length: int, sym: bool) -> None:
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.signal.windows, name)
    for options in OPTIONS.get(name, [{}]):
        if sym and "center" in options:
            continue
        given = {"sym": sym} | options
        ours = getattr(windows, name)(length, dtype=ad.float64, **given)
        np.testing.assert_allclose(ours.numpy(), theirs(length, dtype=torch.float64, **given).numpy(), 1e-12, 1e-14)


def test_type_is_the_default_of_floats() -> None:
    assert windows.hann(4).dtype is ad.float32
    assert windows.hann(4, sym=False).tolist() == pytest.approx([0.0, 0.5, 1.0, 0.5])
    assert windows.hann(4, dtype=ad.float64, requires_grad=True).requires_grad


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: windows.hann(-1), ValueError, "requires non-negative window length, got M=-1"),
        (lambda: windows.gaussian(3, dtype=ad.float16), ValueError, "gaussian expects float32 or float64 dtypes"),
        (lambda: windows.cosine(3, layout=ad.preserve_format), ValueError, "implemented for strided tensors only"),
        (lambda: windows.exponential(3, tau=0), ValueError, "Tau must be positive, got: 0 instead."),
        (lambda: windows.exponential(3, center=1), ValueError, "Center must be None for symmetric windows"),
        (lambda: windows.gaussian(3, std=-1), ValueError, "Standard deviation must be positive, got: -1 instead."),
        (lambda: windows.kaiser(3, beta=-1), ValueError, "beta must be non-negative, got: -1 instead."),
        (lambda: windows.general_cosine(3, a=[]), ValueError, "Coefficients cannot be empty"),
        (lambda: windows.general_cosine(3, a=0.5), TypeError, "Coefficients must be a list/tuple"),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
