"""Sums over ranks have one order: the same bits by each way to exchange, and for half as many ranks."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.support.thread_ranks import ThreadCommunicator, run_threads

from adjoint.distributed import ordered_sum
from adjoint.distributed.mpi import bytes_of

DTYPES = ["float32", "float64", "complex64", "float16", ml_dtypes.bfloat16]


def values_of(rank: int, size: int, dtype: Any) -> Any:
    scale = 10.0 ** np.random.default_rng(7).integers(-3, 3, size)
    drawn = np.random.default_rng(rank).standard_normal((2, size)) * scale
    return (drawn[0] + 1j * drawn[1]).astype(dtype) if np.dtype(dtype).kind == "c" else drawn[0].astype(dtype)


def allocate(count: int) -> Any:
    return np.full(count, 255, np.uint8)


def sum_on(count: int, size: int, dtype: Any, *, in_place: bool = False) -> list[Any]:
    def work(comm: ThreadCommunicator) -> Any:
        x = values_of(comm.rank, size, dtype)
        out = x if in_place else np.empty_like(x)
        ordered_sum.sum_over_ranks(comm, out, x, allocate)
        return out

    return run_threads(count, work)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1, 7, 2048, 5003])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 16])
def test_all_ranks_have_the_sum_of_all_in_the_same_bits(count: int, size: int, dtype: Any, monkeypatch: Any) -> None:
    expected = ordered_sum.add_pairwise([values_of(rank, size, dtype) for rank in range(count)])
    for limit, piece in (1 << 30, 64), (0, 1 << 20), (0, 1 << 10):  # small messages; large ones, whole and in pieces
        monkeypatch.setattr(ordered_sum, "MAX_GATHERED_BYTES", limit)
        monkeypatch.setattr(ordered_sum, "PIECE_BYTES", piece)
        for halving in (8, 1 << 30) if count >= 8 else (8,):
            monkeypatch.setattr(ordered_sum, "MIN_HALVING_RANKS", halving)
            for out in sum_on(count, size, dtype, in_place=bool(limit)):
                assert out.tobytes() == expected.tobytes()
    exact = sum(values_of(rank, size, dtype).astype(np.complex128) for rank in range(count))
    scale = sum(abs(values_of(rank, size, dtype).astype(np.complex128)) for rank in range(count))
    eps = float(ml_dtypes.finfo(dtype).eps)
    assert (abs(expected.astype(np.complex128) - exact) <= 4 * eps * scale).all()


def test_half_as_many_ranks_that_hold_the_sums_of_two_get_the_same_bits() -> None:
    rows = [values_of(rank, 1000, np.float32) for rank in range(8)]
    halved = [a + b for a, b in zip(rows[::2], rows[1::2], strict=True)]
    assert ordered_sum.add_pairwise(rows).tobytes() == ordered_sum.add_pairwise(halved).tobytes()


def test_types_of_two_bytes_are_rounded_once() -> None:
    ones = [np.full(3, 1.0, np.float16), *[np.full(3, 2**-11, np.float16)] * 2]
    assert ordered_sum.add_pairwise(ones).tolist() == [1.0 + 2**-10] * 3  # 1 + 2**-11 alone rounds to 1


def test_memory_with_gaps_is_refused() -> None:
    with pytest.raises(ValueError, match="Tensors must be contiguous"):
        bytes_of(np.ones((4, 4))[:, ::2])
