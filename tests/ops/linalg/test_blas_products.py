"""Products by NumPy's BLAS: right for all layouts, the same bits for every number of threads, and small ones stay."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from tests.support.scripts import output_of

import adjoint as ad
from adjoint.core.op.eager_kernels import kernel_provider
from adjoint.core.op.op import op_of
from adjoint.core.op.thread_crew import ThreadCrew, thread_crew
from adjoint.core.runtime import threads
from adjoint.core.runtime.threads import one_blas_thread
from adjoint.ops.linalg import blas_products
from adjoint.ops.linalg.blas_products import MAX_PARTS, multiply_matrices
from adjoint.ops.linalg.matmul import bmm

rng = np.random.default_rng(0)
needs_blas = pytest.mark.skipif(one_blas_thread.count_threads() is None, reason="NumPy's BLAS is not known")
LARGE = {
    "rows": ((640, 300), (300, 96)),
    "columns": ((70, 50), (50, 900)),
    "one part by rows": ((100, 900), (900, 40)),
    "a vector": ((1, 700), (700, 600)),
    "stack": ((9, 70, 80), (9, 80, 50)),
    "stack of stacks": ((3, 4, 50, 60), (3, 4, 60, 50)),
    "one of many": ((1, 64, 64), (10, 64, 64)),
    "broadcast": ((5, 1, 40, 50), (7, 50, 30)),
    "two by many rows": ((2, 500, 40), (40, 50)),
    "outer": ((700, 1), (1, 700)),
}


@pytest.fixture(autouse=True)
def number(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Products of these sizes are shared; the number of threads is put back, and no stall is remembered."""
    before = ad.get_num_threads()
    monkeypatch.setattr(blas_products, "MIN_SHARED_BYTES", 1_600_000)
    monkeypatch.setattr(blas_products, "MIN_PART", 100_000)
    thread_crew.alone_until = 0.0
    yield
    ad.set_num_threads(before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("native", [True, False], ids=["native", "python"])
def test_a_large_product_is_right_and_has_the_same_bits_on_any_number_of_threads(
    name: str, dtype: type, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_provider, "enabled", kernel_provider.enabled and native)
    x, y = (rng.standard_normal(shape).astype(dtype) for shape in LARGE[name])
    expected = np.matmul(x.astype(np.float64), y.astype(np.float64))
    assert expected.size * x.shape[-1] * x.itemsize >= blas_products.MIN_SHARED_BYTES
    results = []
    for n in (1, 2, 5):
        ad.set_num_threads(n)
        results.append(multiply_matrices(x, y))
        out = np.full(expected.shape, np.nan, dtype)
        assert multiply_matrices(x, y, out=out) is out
        results.append(out)
    assert all(each.dtype == dtype and each.tobytes() == results[0].tobytes() for each in results)
    np.testing.assert_allclose(results[0], expected, rtol=0, atol=1e-3 if dtype is np.float32 else 1e-10)


def test_a_product_of_half_a_millisecond_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(kernel_provider, "enabled", False)
    ad.set_num_threads(2)
    shared = []
    monkeypatch.setattr(ThreadCrew, "run", lambda crew, work, parts, threads: shared.append((parts, threads)))
    multiply_matrices(np.ones((256, 256)), np.ones((256, 200)))
    assert shared == []
    multiply_matrices(np.ones((256, 256)), np.ones((256, 256)))
    assert shared == [(2, min(2, one_blas_thread.count_threads() or 1))]


@pytest.mark.parametrize("layout", ["transposed", "sliced", "reversed", "repeated", "unaligned"])
def test_a_large_product_of_arrays_that_lie_otherwise(layout: str) -> None:
    def lay(shape: tuple[int, int]) -> np.ndarray:
        n, m = shape
        if layout == "transposed":
            return rng.standard_normal((m, n)).T
        if layout == "sliced":
            return rng.standard_normal((n, 2 * m))[:, ::2]
        if layout == "reversed":
            return rng.standard_normal(shape)[::-1]
        if layout == "repeated":
            return np.broadcast_to(rng.standard_normal((n, 1)), shape)
        raw = np.zeros(n * m * 8 + 1, np.int8)[1:].view(np.float64).reshape(shape)
        raw[...] = rng.standard_normal(shape)
        return raw

    x, y = lay((200, 100)), lay((100, 100))
    expected = np.ascontiguousarray(x) @ np.ascontiguousarray(y)
    ad.set_num_threads(2)
    np.testing.assert_allclose(multiply_matrices(x, y), expected, rtol=0, atol=1e-10)


def test_a_matrix_by_its_own_transpose_is_exactly_symmetric() -> None:
    x = rng.standard_normal((200, 100))
    ad.set_num_threads(2)
    for gram in (multiply_matrices(x, x.T), multiply_matrices(x.T, x)):
        assert (gram == gram.T).all()


def test_infinities_and_nans_reach_only_their_rows() -> None:
    x, y = rng.standard_normal((640, 30)), rng.standard_normal((30, 96))
    x[5, 3], x[600, 7] = np.inf, np.nan
    ad.set_num_threads(2)
    finite = np.isfinite(multiply_matrices(x, y)).all(1)
    assert sorted(np.flatnonzero(~finite)) == [5, 600]


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.bool_, np.complex64, np.float16])
def test_other_types_are_as_numpy_has_them(dtype: type) -> None:
    x, y = ((rng.random(shape) * 3).astype(dtype) for shape in ((210, 200), (200, 200)))
    with one_blas_thread:  # several split complex products elsewhere
        expected = x @ y
    assert multiply_matrices(x, y).tobytes() == expected.tobytes()


@pytest.mark.parametrize(("x", "y"), [((0, 5), (5, 7)), ((3, 0), (0, 7)), ((0, 2, 3), (0, 3, 4)), ((2, 3), (3, 0))])
def test_empty_products(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    product = multiply_matrices(np.ones(x), np.ones(y))
    assert product.shape == (np.ones(x) @ np.ones(y)).shape
    assert not product.any()


def test_parts_are_not_many_and_take_whole_blocks() -> None:
    for shape in [(64, 128), (5000, 3), (3, 5000), (65, 65), (2, 700, 700), (1000, 8, 8), (1, 1, 4096)]:
        axis, step = blas_products._divide(shape, 4096)
        assert 1 <= -(-shape[axis] // step) <= MAX_PARTS
        assert axis < len(shape) - 2 or step % blas_products.PART_MULTIPLE == 0


@needs_blas
def test_blas_has_one_thread_while_it_computes_a_product_and_the_number_back_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ad.set_num_threads(2)
    numbers, matmul, blas = [], np.matmul, threads._find_blas()
    assert blas is not None

    def observed(*operands: object, **options: object) -> object:
        numbers.append(blas.get())
        return matmul(*operands, **options)

    monkeypatch.setattr(np, "matmul", observed)
    for shape in ((80, 80), (300, 300)):
        multiply_matrices(np.ones(shape), np.ones(shape))
    multiply_matrices(np.ones((1, 200)), np.ones((200, 200)))
    assert set(numbers) == {1}
    assert blas.get() == 2


WITHOUT_LLVMLITE = """
import sys
sys.modules["llvmlite"] = None
import numpy as np, adjoint as ad
from adjoint.ops.linalg.blas_products import tiles_slot
x = np.random.default_rng(0).random((300, 300))
product = ad.tensor(x) @ ad.tensor(x + 1)
print(np.allclose(product.numpy(), x @ (x + 1)), tiles_slot.is_filled())
"""


def test_large_products_without_llvmlite() -> None:
    assert output_of(WITHOUT_LLVMLITE, ADJOINT_NUM_THREADS="2", ADJOINT_NO_CACHE="1") == "True False"


SMALL = """
import os, sys, time
import numpy as np, adjoint as ad

def switches():
    mine = str(os.getpid())
    total = 0
    for thread in os.listdir("/proc/self/task"):
        if thread != mine:
            with open(f"/proc/self/task/{thread}/status") as status:
                total += sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)
    return len(os.listdir("/proc/self/task")), total

before = switches()
while time.sleep(0.3) or switches() != before:  # threads that have just been made go to sleep at some time
    before = switches()
for dtype in (ad.float32, ad.float64):
    for n, k, m in [(2, 3, 4), (16, 9, 2048), (32, 144, 512), (64, 64, 64), (1, 784, 300), (300, 784, 1)]:
        x, y = ad.ones(n, k, dtype=dtype, requires_grad=True), ad.ones(k, m, dtype=dtype, requires_grad=True)
        for _ in range(5):
            (x @ y).sum().backward()
    square = ad.eye(60, dtype=dtype) * 2
    square.inverse(), ad.linalg.cholesky(square), ad.linalg.svd(square), ad.linalg.eigh(square), ad.linalg.qr(square)
    image, weight = ad.ones(32, 16, 4, 4, dtype=dtype), ad.ones(32, 16, 3, 3, dtype=dtype, requires_grad=True)
    ad.nn.functional.conv2d(image, weight, padding=1).sum().backward()
print(before == switches(), before[0])
(np.ones((700, 700)) @ np.ones((700, 700))).sum()
print(before == switches())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system does not tell of threads")
@needs_blas
def test_small_products_never_leave_the_thread() -> None:
    variables = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "2")
    calm, numpys = output_of(SMALL, **variables, ADJOINT_NUM_THREADS="2").splitlines()
    if calm.endswith(" 1") and numpys == "True":
        pytest.skip("NumPy's BLAS starts no threads here")
    assert calm.startswith("True")
    assert numpys == "False"  # NumPy's own product does wake them: the number is given back


def test_stacks_of_outer_products_are_products_of_elements() -> None:
    x, y = rng.standard_normal((5, 3, 1)), rng.standard_normal((5, 1, 4))
    assert np.array_equal(bmm(x, y).numpy(), x * y)
    assert np.array_equal(bmm(x[:1], y).numpy(), x[:1] * y)


@pytest.mark.skipif(not kernel_provider.ready(), reason="there are no kernels")
def test_large_stacks_are_multiplied_by_a_kernel_in_both_directions() -> None:
    x, y = (ad.tensor(rng.standard_normal((24, 64, 48)), requires_grad=True) for _ in range(2))
    before = len(op_of(bmm).native.kernels)
    out = x @ y.mT
    out.backward(out.detach())
    assert len(op_of(bmm).native.kernels) > before
    a, b = x.detach().numpy(), y.detach().numpy()
    expected = np.matmul(a, b.swapaxes(1, 2))
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), np.matmul(expected, b), rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(y.grad.numpy(), np.matmul(expected.swapaxes(1, 2), a), rtol=1e-12, atol=1e-10)
