"""Products by tiles of NumPy's BLAS: right for all layouts, on any number of threads; what it cannot read is left."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("llvmlite")
import adjoint as ad
from adjoint.compiler.eager.product_tiles import multiply_tiles
from adjoint.core.runtime.threads import find_gemm, one_blas_thread

rng = np.random.default_rng(0)
pytestmark = pytest.mark.skipif(find_gemm("f") is None, reason="NumPy's BLAS is not known")
SHAPES = [((640, 30), (30, 96)), ((130, 1), (1, 65)), ((2, 500), (500, 2)), ((257, 129), (129, 300))]


@pytest.fixture(autouse=True)
def number() -> Iterator[None]:
    """BLAS has one thread, as callers have it; the number of threads is put back."""
    before = ad.get_num_threads()
    with one_blas_thread:
        yield
    ad.set_num_threads(before)


def lay(shape: tuple[int, int], layout: str, dtype: type) -> np.ndarray:
    """Random numbers of this shape that lie in rows, in columns, or with gaps."""
    n, m = shape
    if layout == "rows":
        return rng.standard_normal(shape).astype(dtype)
    if layout == "columns":
        return rng.standard_normal((m, n)).astype(dtype).T
    return rng.standard_normal((n, m + 7)).astype(dtype)[:, 3 : m + 3]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("x_layout", ["rows", "columns", "gaps"])
@pytest.mark.parametrize("y_layout", ["rows", "columns", "gaps"])
def test_products_of_all_layouts(dtype: type, x_layout: str, y_layout: str) -> None:
    for x_shape, y_shape in SHAPES:
        x, y = lay(x_shape, x_layout, dtype), lay(y_shape, y_layout, dtype)
        expected = x.astype(np.float64) @ y.astype(np.float64)
        for axis in (0, 1):
            results = []
            for threads in (1, 2, 3):
                ad.set_num_threads(threads)
                whole = np.full((expected.shape[0], expected.shape[1] + 5), np.nan, dtype)
                out = whole[:, 2:-3]
                assert multiply_tiles(x, y, out, axis, 64, threads)
                results.append(out.tobytes())
                assert np.isnan(whole[:, :2]).all()  # nothing is written beside the result
                assert np.isnan(whole[:, -3:]).all()
            assert len(set(results)) == 1
            np.testing.assert_allclose(out, expected, rtol=0, atol=1e-3 if dtype is np.float32 else 1e-11)


@pytest.mark.parametrize(
    "operands",
    [
        (np.ones((4, 6))[:, ::2], np.ones((3, 5))),
        (np.ones((4, 3))[::-1], np.ones((3, 5))),
        (np.broadcast_to(np.ones((4, 1)), (4, 3)), np.ones((3, 5))),
        (np.ones((4, 3)), np.ones((3, 5), np.float32)),
        (np.ones((4, 3), ">f8"), np.ones((3, 5), ">f8")),
        (np.ones((4, 3), np.int64), np.ones((3, 5), np.int64)),
        (np.ones((4, 3), np.complex128), np.ones((3, 5), np.complex128)),
        (np.zeros(97, np.int8)[1:].view(np.float64).reshape(4, 3), np.ones((3, 5))),
        (np.ones((1, 3)), np.ones((3, 5))),
    ],
    ids=["step", "reversed", "repeated", "two types", "foreign bytes", "integers", "complex", "unaligned", "one row"],
)
def test_what_blas_cannot_read_is_refused_untouched(operands: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = operands
    out = np.full((x.shape[0], y.shape[1]), 7.0)
    assert not multiply_tiles(x, y, out, 0, 2, 2)
    assert (out == 7.0).all()


def test_a_result_that_lies_in_columns_is_refused() -> None:
    assert not multiply_tiles(np.ones((4, 3)), np.ones((3, 5)), np.ones((5, 4)).T, 0, 2, 2)


def test_threads_multiply_at_once() -> None:
    ad.set_num_threads(2)
    x, y = rng.standard_normal((300, 90)), rng.standard_normal((90, 70))
    expected, wrong = x @ y, []

    def work() -> None:
        for i in range(60):
            out = np.empty((300, 70))
            multiply_tiles(x * i, y, out, 0, 64, 2)
            if not np.allclose(out, expected * i):
                wrong.append(i)

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert not worker.is_alive()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_forked_process_multiplies() -> None:
    ad.set_num_threads(2)
    x, y, out = np.ones((300, 90)), np.ones((90, 70)), np.empty((300, 70))
    assert multiply_tiles(x, y, out, 0, 64, 2)
    child = os.fork()
    if child == 0:
        status = 2
        try:
            out[...] = 0
            status = 0 if multiply_tiles(x, y, out, 0, 64, 2) and (out == 90).all() else 1
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
