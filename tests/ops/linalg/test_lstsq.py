"""Least squares of stacks of matrices, against NumPy's of one matrix after another."""

import numpy as np
import pytest

import adjoint as ad


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("deficient", [False, True])
def test_a_stack_is_solved_as_its_matrices_are(dtype, deficient):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((6, 8, 4)).astype(dtype), rng.standard_normal((6, 8, 2)).astype(dtype)
    if deficient:
        a[2, :, 3] = a[2, :, 0]
    found = ad.linalg.lstsq(ad.tensor(a), ad.tensor(b), rcond=1e-5)
    wanted = [np.linalg.lstsq(*pair, rcond=1e-5) for pair in zip(a, b, strict=True)]
    np.testing.assert_allclose(found.solution.numpy(), [w[0] for w in wanted], rtol=1e-4, atol=1e-6)
    assert found.rank.tolist() == [w[2] for w in wanted]


def test_one_matrix_serves_several_right_sides():
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((5, 3)), rng.standard_normal((4, 5, 2))
    found = ad.linalg.lstsq(ad.tensor(np.stack([a] * 4)), ad.tensor(b)).solution.numpy()
    np.testing.assert_allclose(found, np.linalg.pinv(a) @ b, rtol=1e-10)
