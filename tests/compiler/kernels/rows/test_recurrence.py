"""Linear recurrences by a kernel, against a loop, and the gradients that are made of them."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.compiler import eager_kernels
from adjoint.ops.reduction.scan import RECURRENCE, recurrence

pytest.importorskip("llvmlite")


def loop(g, factor, axis):
    out, total = np.empty(g.shape, g.dtype), 0.0
    for i in range(g.shape[axis])[::-1]:
        at = (*[slice(None)] * axis, i)
        total = g[at].astype(np.float64) + factor[at].astype(np.float64) * total
        out[at] = total
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_recurrence_goes_from_the_end_to_the_beginning(dtype):
    rng = np.random.default_rng(0)
    for shape in [(600,), (3, 0), (4, 170), (2, 70, 5), (3, 5, 70)]:
        g, factor = rng.standard_normal((2, *shape)).astype(dtype)
        for x, y in ((g, factor), (g[::-1], factor), (g.T, factor.T), (np.broadcast_to(g[:1], shape), factor)):
            for axis in range(x.ndim):
                got = RECURRENCE.call(x, y, axis=axis)
                if got is not None:
                    np.testing.assert_array_equal(got, loop(x, y, axis))
                tolerance = 1e-4 if dtype is np.float32 else 1e-11
                np.testing.assert_allclose(np.asarray(recurrence(x, y, axis)), loop(x, y, axis), tolerance, tolerance)


@pytest.mark.parametrize("name", ["cumprod", "logcumsumexp"])
def test_gradients_with_and_without_kernels_agree(name):
    x = np.random.default_rng(1).standard_normal((6, 130))
    x[2, 5] = x[2, 9] = 0.0
    found = []
    for enabled in (True, False):
        with eager_kernels(enabled):
            leaf = ad.tensor(x, requires_grad=True)
            (getattr(ad, name)(leaf, 1) ** 2).sum().backward()
            found.append(leaf.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12)
