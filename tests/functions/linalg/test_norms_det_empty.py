"""Linear algebra of matrices without elements: the values, the shapes, and what has no value."""

from __future__ import annotations

import math

import pytest
from tests.support.errors import assert_raises

import adjoint as ad

LARGEST, SMALLEST = (1, 2, math.inf), (-1, -2, -math.inf)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (2, 0, 3), (2, 3, 0), (0, 2, 3), (0, 0, 3)])
@pytest.mark.parametrize("ord", [*LARGEST, *SMALLEST, "fro", "nuc"])
def test_norms(shape: tuple[int, ...], ord: float | str) -> None:
    x = ad.zeros(shape, requires_grad=True)
    lead, (rows, columns) = shape[:-2], shape[-2:]
    # over how many numbers the extreme is taken: sums of columns, sums of rows, singular values
    count = {1: columns, math.inf: rows, 2: min(rows, columns)}.get(abs(ord), 1) if not isinstance(ord, str) else 1
    if ord in SMALLEST and not count and 0 not in lead:
        assert_raises(IndexError, "linalg.matrix_norm: the smallest of no", ad.linalg.matrix_norm, x, ord)
    else:
        found = ad.linalg.matrix_norm(x, ord)
        assert found.shape == lead
        assert not found.any()
        if found.requires_grad:
            (slope,) = ad.autograd.grad(found.sum(), x)
            assert slope.shape == shape


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (2, 0, 5)])
def test_rank_and_inverse_of_nothing_look_at_no_symmetry(shape: tuple[int, ...]) -> None:
    assert ad.linalg.matrix_rank(ad.zeros(shape), hermitian=True).tolist() == ad.zeros(shape[:-2]).long().tolist()
    assert ad.linalg.pinv(ad.zeros(shape), hermitian=True).shape == (*shape[:-2], shape[-1], shape[-2])
    for function in (ad.linalg.matrix_rank, ad.linalg.pinv):
        assert_raises(RuntimeError, "batches of square matrices", function, ad.zeros(2, 5), hermitian=True)


def test_a_system_of_no_unknowns() -> None:
    assert ad.linalg.tensorsolve(ad.zeros(0, 4, 4, 3), ad.zeros(0, 4), dims=(0, 2)).shape == (0, 4)
    assert_raises(RuntimeError, "requirement prod", ad.linalg.tensorsolve, ad.zeros(0, 4, 4, 3), ad.zeros(3, 4))


@pytest.mark.parametrize("n", [-2, 0, 1, 2, 3])
def test_powers_are_written_into_wider_types(n: int) -> None:
    a = ad.tensor([[2.0, 1.0], [0.0, 1.0]])
    out = ad.empty(0, dtype=ad.float64)
    assert ad.linalg.matrix_power(a, n, out=out) is out
    assert out.tolist() == ad.linalg.matrix_power(a, n).tolist()
    assert_raises(RuntimeError, "safely castable", ad.linalg.matrix_power, a, n, out=ad.empty(0).int())
