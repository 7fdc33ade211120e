"""One matrix factored by LAPACK itself: Q, R and solutions are those of NumPy, whichever of the two computes."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.ops.linalg import householder

SHAPES = [(1, 1), (7, 3), (3, 7), (40, 33), (5, 5), (130, 40)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_q_and_r_are_those_of_numpy(shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    tolerance = 200 * np.finfo(dtype).eps
    q, r = ad.linalg.qr(ad.tensor(x))
    wanted = np.linalg.qr(x)
    np.testing.assert_allclose(q.numpy(), wanted[0], atol=tolerance)
    np.testing.assert_allclose(r.numpy(), wanted[1], atol=tolerance)
    np.testing.assert_array_equal(ad.linalg.qr(ad.tensor(x.T.copy()).T, mode="r")[1].numpy(), r.numpy())
    for found, recorded in zip((q, r), ad.linalg.qr(ad.tensor(x, requires_grad=True)), strict=True):
        np.testing.assert_array_equal(found.numpy(), recorded.detach().numpy())
        assert found.stride() == recorded.stride()
    assert q.numpy().dtype == r.numpy().dtype == dtype


@pytest.mark.parametrize("shape", [(7, 3), (5, 5), (130, 40)])
@pytest.mark.parametrize("columns", [1, 50])
def test_least_squares_of_one_matrix(shape, columns):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal(shape), rng.standard_normal((shape[0], columns))
    wanted = np.linalg.lstsq(a, b, rcond=None)[0]
    found = ad.linalg.lstsq(ad.tensor(a), ad.tensor(b))
    np.testing.assert_allclose(found.solution.numpy(), wanted, rtol=1e-9, atol=1e-12)
    assert found.rank.item() == shape[1]
    assert found.residuals.shape == found.singular_values.shape == (0,)
    recorded = ad.linalg.lstsq(ad.tensor(a, requires_grad=True), ad.tensor(b))
    np.testing.assert_array_equal(recorded.solution.detach().numpy(), found.solution.numpy())
    assert recorded.rank.item() == shape[1]


@pytest.mark.parametrize("column", [[0.0] * 4, [1.0, 2.0, 3.0, 4.0]])
def test_a_deficient_matrix_has_the_shortest_solution(column):
    a = np.stack([[1.0, 2.0, 3.0, 4.0], column, [1.0, 0.0, 0.0, 1.0]], 1)
    b = np.ones((4, 1))
    found = ad.linalg.lstsq(ad.tensor(a), ad.tensor(b))
    np.testing.assert_allclose(found.solution.numpy(), np.linalg.pinv(a) @ b, atol=1e-12)
    assert found.rank.item() == 2


def test_numpy_computes_where_no_lapack_is_known(monkeypatch):
    x = np.random.default_rng(2).standard_normal((6, 4))
    q, r = ad.linalg.qr(ad.tensor(x))
    solution = ad.linalg.lstsq(ad.tensor(x), ad.tensor(x[:, :1])).solution
    monkeypatch.setattr(householder, "_find_routine", lambda *_: None)
    for found, other in zip(ad.linalg.qr(ad.tensor(x)), (q, r), strict=True):
        np.testing.assert_allclose(found.numpy(), other.numpy(), atol=1e-14)
    again = ad.linalg.lstsq(ad.tensor(x), ad.tensor(x[:, :1])).solution
    np.testing.assert_allclose(again.numpy(), solution.numpy(), atol=1e-14)
