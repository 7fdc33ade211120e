"""Fourier transforms by kernels, eagerly and compiled, against NumPy's of float64."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import eager_kernels
from adjoint.compiler.kernels.rows import fft_stages
from adjoint.compiler.kernels.rows.fft import plan_transform
from adjoint.compiler.kernels.rows.plan import RowOperand
from adjoint.compiler.llvm.jit.target import host

pytest.importorskip("llvmlite")
LENGTHS = [2, 3, 4, 6, 9, 16, 26, 35, 48]
ERRORS = {np.float32: 4e-7, np.float64: 2e-15}  # of transforms this short, relative to the norm


def difference(x, y):
    return np.linalg.norm((x - y).ravel()) / np.linalg.norm(y.ravel())


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_transforms_are_as_precise_as_their_type(n, real):
    rng = np.random.default_rng(n)
    for shape, d in (((37, n), 1), ((3, n, 13), 1), ((2, n, 3), 1)):
        x = rng.standard_normal(shape).astype(real)
        z = (x + 1j * rng.standard_normal(shape)).astype(np.result_type(real, np.complex64))
        half = np.take(z, range(n // 2 + 1), d)
        for name, given, more in (
            ("fft", z, {}),
            ("ifft", z, {}),
            ("rfft", x, {}),
            ("irfft", half, {"n": n}),
            ("fft", z, {"norm": "ortho"}),
        ):
            got = getattr(ad.fft, name)(ad.tensor(given), dim=d, **more).numpy()
            wide = given.astype(np.complex128 if given.dtype.kind == "c" else np.float64)
            assert difference(got, getattr(np.fft, name)(wide, axis=d, **more)) < ERRORS[real]
            with eager_kernels(False):
                wanted = getattr(ad.fft, name)(ad.tensor(given), dim=d, **more).numpy()
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)


def test_a_line_that_is_not_finite_spoils_no_other():
    x = np.random.default_rng(0).standard_normal((9, 12))
    x[4, 3] = np.nan
    x[7, 0] = np.inf
    for name in ("fft", "rfft", "irfft"):
        fine = np.isfinite(getattr(ad.fft, name)(ad.tensor(x)).numpy()).all(1)
        assert fine.tolist() == [i not in (4, 7) for i in range(9)]


def test_moved_signals_are_read_where_they_lie():
    x = np.random.default_rng(0).standard_normal((6, 20, 10))
    for moved in (ad.tensor(x).permute(2, 0, 1), ad.tensor(x)[:, ::2], ad.flip(ad.tensor(x), (0,)), ad.tensor(x).mT):
        for d in range(3):
            np.testing.assert_allclose(
                ad.fft.rfft(moved, dim=d).numpy(), np.fft.rfft(moved.numpy(), axis=d), atol=1e-12
            )


def test_a_compiled_step_has_a_kernel_for_each_dimension_of_a_transform_and_its_gradient():
    def step(x):
        x = x.detach().requires_grad_()
        y = ad.fft.irfft2(ad.fft.rfft2(x), s=(12, 15), norm="ortho")
        (y * y).sum().backward()
        return y.detach(), x.grad

    x = ad.tensor(np.random.default_rng(1).standard_normal((5, 12, 15)))
    compiled = ad.compile(step)
    for got, wanted in zip(compiled(x), step(x), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-11)
    lines = [entry for entry in compiled.kernels if any(op.startswith("line_") for op in entry["ops"])]
    assert len(lines) == 8
    assert not any("NumPy" in entry["reason"] for entry in lines)


def test_lengths_with_large_prime_factors_are_left_to_numpy():
    def plan(n, rows=64):
        return plan_transform("c2c", RowOperand((rows, n), np.dtype(np.complex64), (n, 1)), 1, n, False, 1.0, host())

    assert plan(48) is not None
    assert plan(17) is None
    assert plan(8192) is None
    assert plan(1024, rows=1) is None
    assert fft_stages.factorize(2 * 3 * 16 * 13) == [4, 4, 2, 3, 13]
    x = np.random.default_rng(0).standard_normal((20, 34))
    np.testing.assert_allclose(ad.fft.fft(ad.tensor(x)).numpy(), np.fft.fft(x), atol=1e-12)


def test_roots_of_unity_are_exact_at_eighths_of_the_circle():
    assert [fft_stages.root_of_unity(k, 4) for k in range(4)] == [(1.0, 0.0), (0.0, -1.0), (-1.0, 0.0), (0.0, 1.0)]
    c, s = fft_stages.root_of_unity(1, 8)
    assert abs(c + s) < 2e-16
