"""`stft` and `istft` beside PyTorch: value, gradient, second gradient, errors, and that one undoes the other."""

from typing import Any

import numpy as np
import pytest
from tests.functions.elementwise.test_complex import compare
from tests.support.errors import errors_of
from tests.support.oracle import torch

import adjoint as ad

NUMBERS = np.random.default_rng(3)
X = NUMBERS.normal(size=(2, 24))
WINDOW = NUMBERS.uniform(0.5, 1, 8)
pytestmark = pytest.mark.filterwarnings("ignore:A window was not provided", "ignore:stft with return_complex=False")

SPLIT = [
    "", "hop_length=3", "win_length=6", "center=False", "normalized=True", "onesided=False", "pad_mode='constant'",
    "pad_mode='replicate'", "pad_mode='circular'",
]  # fmt: skip
JOIN = ["", "length=20", "normalized=True", "onesided=True"]


@pytest.mark.parametrize("given", SPLIT)
def test_stft(given: str) -> None:
    compare(f"t.stft(x, 8, return_complex=True, {given})", (X,), 1e-10)
    compare(f"x[0].stft(7, return_complex=True, {given})", (X,), 1e-10)
    compare(f"t.stft(x, 8, return_complex=False, {given})", (X,), 1e-10)


def test_stft_with_a_window() -> None:
    compare("t.stft(x, 8, window=y, return_complex=True)", (X, WINDOW), 1e-10)
    compare("t.stft(x, 8, 2, 6, y[:6], return_complex=True)", (X, WINDOW), 1e-10)
    compare("t.stft(x, 8, window=y)", (X + 1j, WINDOW), 1e-10)


def spectrum(onesided: bool) -> Any:
    given = torch.tensor(WINDOW)
    return torch.stft(torch.tensor(X), 8, 2, window=given, onesided=onesided, return_complex=True).numpy()


@pytest.mark.parametrize("given", JOIN)
def test_istft(given: str) -> None:
    compare(f"t.istft(x, 8, 2, {given})", (spectrum(True),), 1e-10)
    compare(f"x[0].istft(8, 2, window=y, {given})", (spectrum(True), WINDOW), 1e-10)


def test_istft_of_both_sides() -> None:
    compare("t.istft(x, 8, 2, return_complex=True)", (spectrum(False),), 1e-10)
    compare("t.istft(x, 8, 2)", (spectrum(False),), 1e-10)
    compare("t.istft(x, 8, 2, window=y, center=False)", (spectrum(True), WINDOW), 1e-10)


def test_a_longer_signal_is_filled_up() -> None:
    for library in (ad, torch):
        z, window = library.tensor(spectrum(True)), library.tensor(WINDOW)
        with pytest.warns(UserWarning, match="padded with zeros in the tail"):
            out = library.istft(z, 8, 2, window=window, length=30)
        np.testing.assert_allclose(out[:, :24].numpy(), X, atol=1e-12)
        assert out.shape[-1] == 30


def test_istft_undoes_stft() -> None:
    x, window = ad.tensor(X), ad.tensor(WINDOW)
    z = x.stft(8, 3, window=window, return_complex=True)
    np.testing.assert_allclose(z.istft(8, 3, window=window, length=24).numpy(), X, atol=1e-12)


ERRORS = [
    "stft(x, 8)", "stft(x, 80, return_complex=True)", "stft(x, 0, 1, 1, return_complex=True)",
    "stft(x, 8, 0, return_complex=True)", "stft(x, 8, win_length=9, return_complex=True)",
    "stft(x, 8, window=t.ones(7), return_complex=True)", "stft(x[None], 8, return_complex=True)",
    "stft(t.arange(9), 8, return_complex=True)", "stft(x + 1j, 8, onesided=True)",
    "stft(x, 8, pad_mode='unknown', return_complex=True)", "istft(x, 8)", "istft(z, 10)", "istft(z, 8, 9)",
    "istft(z, 8, 2, 9)", "istft(z, 8, 8, window=t.zeros(8, dtype=t.float64))", "istft(z, 8, onesided=False)",
    "istft(z, 8, return_complex=True)", "istft(z[0, 0][None, None, None], 8)",
]  # fmt: skip


@pytest.mark.parametrize("call", ERRORS)
def test_errors(call: str) -> None:
    z = spectrum(True)
    ours, theirs = errors_of(lambda t: eval(f"t.{call}", {"t": t, "x": t.tensor(X), "z": t.tensor(z)}), ad, torch)
    assert type(ours) is type(theirs)
    assert isinstance(theirs, RuntimeError)
