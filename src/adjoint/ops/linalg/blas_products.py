"""Products of matrices by NumPy's BLAS: small ones on the thread that calls, parts of large ones on several.

How a product is divided depends on its shapes alone, so that the number of threads changes no bit of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from adjoint.core.op.eager_kernels import kernel_provider
from adjoint.core.op.thread_crew import thread_crew
from adjoint.core.runtime.slot import Slot
from adjoint.core.runtime.threads import count_product_threads, one_blas_thread
from adjoint.core.typing import Array

# Multiplications. BLAS itself keeps to one thread up to some number: OpenBLAS up to 64³ for two matrices, and a product
# by a vector, which has a lower limit, up to 96².
MAX_UNTHREADED = 9_216
MAX_UNTHREADED_MATRICES = 262_144
MIN_SHARED_BYTES = 128_000_000  # multiplications × bytes: some 0.5 ms; to wake a thread takes up to 0.3 ms
MIN_PART = 64_000_000  # an operand is packed anew for each part: eight parts of 1024³ cost a tenth to a third more
MIN_PART_LINES = 256  # rows or columns of one of more than two parts
MAX_PARTS = 8
PART_MULTIPLE = 64  # of rows or columns, as the blocks of BLAS have


def _decline(*operands: object) -> bool:
    """Return False: this machine has no such kernel."""
    return False


# multiply_tiles(x, y, out, axis, step, threads): whether a kernel has written the product of two matrices
tiles_slot: Slot[Callable[..., object]] = Slot("product_tiles", _decline)


def multiply_by_vector(x: Array, y: Array) -> Array:
    """Return the product of a matrix and a vector, or of a row and a matrix, on this thread."""
    if x.size <= MAX_UNTHREADED >= y.size or one_blas_thread.is_needless():
        return x.dot(y)
    with one_blas_thread:
        return x.dot(y)


def multiply_matrices(x: Array, y: Array, out: Array | None = None) -> Array:
    """Σₖ x[…, i, k] y[…, k, j]; the leading dimensions broadcast."""
    multiplications = x.size * y.shape[-1]
    if multiplications <= MAX_UNTHREADED_MATRICES and (
        multiplications <= MAX_UNTHREADED or (x.shape[-2] > 1 and y.shape[-1] > 1)
    ):
        return _multiply_whole(x, y, out)
    # of stacks that broadcast the shapes alone do not tell yet how many there are
    is_shared = multiplications * x.itemsize >= MIN_SHARED_BYTES or x.shape[:-2] != y.shape[:-2]
    multiply = _multiply_parts if is_shared and x.dtype.kind == "f" else _multiply_whole
    if one_blas_thread.is_needless():
        return multiply(x, y, out)
    with one_blas_thread:
        return multiply(x, y, out)


def _multiply_whole(x: Array, y: Array, out: Array | None) -> Array:
    if x.ndim == y.ndim == 2 and 1 not in (*x.shape, *y.shape) and (out is None or out.flags.c_contiguous):
        return x.dot(y, out)  # the same call of BLAS, sooner; of single rows or columns it is another, with threads
    return np.matmul(x, y, out=out)


def _multiply_parts(x: Array, y: Array, out: Array | None) -> Array:
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    shape = (*batch, x.shape[-2], y.shape[-1])
    # BLAS multiplies a matrix by its own transpose with half the work
    is_gram = x.ctypes.data == y.ctypes.data and x.shape == y.shape[::-1] and x.strides == y.strides[::-1]
    if math.prod(shape) * x.shape[-1] * x.itemsize < MIN_SHARED_BYTES or is_gram:
        return np.matmul(x, y, out=out)
    result = np.empty(shape, np.result_type(x, y)) if out is None else out
    axis, step = _divide(shape, x.shape[-1])
    threads = count_product_threads()
    if threads == 1 and axis < len(shape) - 2:
        return np.matmul(x, y, out=result)
    if len(shape) == 2 and kernel_provider.enabled and tiles_slot.call(x, y, result, axis, step, threads):
        return result
    x, y = (np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in (x, y))
    parts = [(*[slice(None)] * axis, slice(begin, begin + step)) for begin in range(0, shape[axis], step)]

    def multiply(part: int) -> None:
        at = parts[part]
        rows = x if axis == len(shape) - 1 else x[at]
        columns = y if axis == len(shape) - 2 else y[at]
        np.matmul(rows, columns, out=result[at])

    thread_crew.run(multiply, len(parts), threads)
    return result


def _divide(shape: tuple[int, ...], inner: int) -> tuple[int, int]:
    """Return the axis of the result along which a product is divided, and the size of a part."""
    most = min(MAX_PARTS, max(2, math.prod(shape) * inner // MIN_PART))
    counts = [min(most, _count_parts(size, len(shape) - d <= 2)) for d, size in enumerate(shape)]
    axis = max(range(len(shape)), key=lambda d: (counts[d], shape[d], d))  # of equals the columns, as BLAS cuts
    multiple = PART_MULTIPLE if axis >= len(shape) - 2 else 1
    return axis, -(-shape[axis] // (counts[axis] * multiple)) * multiple


def _count_parts(size: int, is_of_matrix: bool) -> int:
    """Return into how many parts a dimension of a batch or a matrix can be divided, at most."""
    return max(size // MIN_PART_LINES, min(2, size // PART_MULTIPLE), 1) if is_of_matrix else size
