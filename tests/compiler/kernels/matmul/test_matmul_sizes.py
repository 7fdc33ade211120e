"""Products that serve every number of rows, every depth and every batch, to the bit as those made for one size.

A product is cut as suits the size that was traced; where it would be cut otherwise for another, as for two rows, sums
are in another order, and equal but for rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.support.symbolic_kernels import SizedKernels, assert_same_bits_for

import adjoint as ad
from adjoint.compiler.ir.symbolic_size import SizeRelations
from adjoint.compiler.kernels.matmul.matmul import MatrixStrides, plan_matmul
from adjoint.compiler.llvm.jit.target import host
from adjoint.compiler.llvm.types import F32

SIZES = (7, 17, 57, 64)


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def linear(x: Any, w: Any, b: Any) -> Any:
    return ad.relu(x @ w.t() + b)


ROWS: dict[str, tuple[Any, ...]] = {
    "plain": (lambda x, w: x @ w, (200, 40), None),
    "linear": (linear, (40, 128), 40),
    "narrow": (linear, (10, 64), 10),
    "one_column": (linear, (1, 64), 1),
    "in_stretches": (lambda x, w: (x @ w) * 2, (3072, 64), None),
    "with_residual": (lambda x, w: (x @ w) * 0.5 + x, (64, 64), None),
}


@pytest.mark.parametrize("name", ROWS)
def test_any_number_of_rows(name: str) -> None:
    function, shape, bias = ROWS[name]
    depth = shape[1] if bias else shape[0]

    def make(n: int) -> list[Any]:
        return [normal(n, depth), normal(*shape), *([normal(bias)] if bias else [])]

    kernels = SizedKernels(function, make(57), [(0,), *[()] * (len(make(2)) - 1)])
    assert kernels.guards == []
    for n in (2, 3, 5, *SIZES, 1000):
        (found,) = kernels(*make(n))
        x, w, *b = (a.astype(np.float64) for a in make(n))
        wanted = function(*map(ad.from_numpy, (x, w, *b))).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(64, 64), (784, 48)])
def test_any_number_of_rows_to_the_bit(shape: tuple[int, int]) -> None:
    kernels = assert_same_bits_for(
        SIZES, lambda x, w: (x @ w).relu(), lambda n: [normal(n, shape[0]), normal(*shape)], [(0,), ()]
    )
    assert kernels.guards == []


def test_the_last_rows_are_written_once_over_what_they_read() -> None:
    def make(n: int) -> list[Any]:
        return [normal(n, 24), normal(24, 32), normal(n, 32)]

    kernels = SizedKernels(lambda x, w, y: x @ w + y, make(57), [(0,), (), (0,)])
    assert len(kernels.kernels) == 1
    for n in SIZES:
        (wanted,) = kernels(*make(n))
        (found,) = kernels(*make(n), over=2)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("rows", [12, 3])
def test_any_batch_to_the_bit(rows: int) -> None:
    def function(x: Any, y: Any, w: Any) -> Any:
        return x @ y, x @ w

    kernels = assert_same_bits_for(
        (2, 3, *SIZES), function, lambda n: [normal(n, rows, 16), normal(n, 16, 20), normal(16, 20)], [(0,), (0,), ()]
    )
    assert kernels.guards == []


@pytest.mark.parametrize("shape", [(200, 40), (64, 10)])
def test_any_depth_to_the_bit(shape: tuple[int, int]) -> None:
    def function(x: Any, g: Any) -> Any:
        return x.t() @ g, g.t() @ x * 0.5

    kernels = assert_same_bits_for(
        (2, 3, *SIZES, 1000), function, lambda n: [normal(n, shape[0]), normal(n, shape[1])], [(0,), (0,)]
    )
    assert kernels.guards == ["s0 <= 2048"]


@pytest.mark.parametrize("traced", [3, 9, 57])
@pytest.mark.parametrize("rows", [3, 40])
def test_any_depth_along_which_both_operands_lie(rows: int, traced: int) -> None:
    kernels = SizedKernels(lambda x, y: x @ y.t(), [normal(rows, traced), normal(rows, traced)], [(1,), (1,)])
    assert [guard.partition(" <= ")[0] for guard in kernels.guards] == ["s0"]
    for n in (2, 3, 7, 8, 9, 15, 16, 17, 33, 57, 64):
        x, y = normal(rows, n), normal(rows, n)
        np.testing.assert_allclose(kernels(x, y)[0], x.astype(np.float64) @ y.T, rtol=1e-5, atol=1e-5, err_msg=f"{n}")


def test_a_long_depth_is_cut_into_the_stretches_of_its_size() -> None:
    kernels = assert_same_bits_for(
        (17, 1000, 2049, 3000, 4096, 5001),
        lambda x, g: x.t() @ g,
        lambda n: [normal(n, 24), normal(n, 16)],
        [(0,), (0,)],
        traced=2500,
    )
    assert kernels.guards == []


def test_rows_in_strips_share_scratch_memory() -> None:
    def make(n: int) -> list[Any]:
        return [normal(n, 2500), normal(2500, 16)]

    kernels = SizedKernels(lambda x, w: x @ w, make(100), [(0,), ()])
    for n in (57, 130, 200):  # for which a machine may prefer blocks of another shape, and so another order
        x, w = make(n)
        np.testing.assert_allclose(kernels(x, w)[0], np.asarray(x, float) @ w, rtol=0, atol=1e-3)
    (kernel,) = kernels.kernels.values()
    (fixed,) = SizedKernels(lambda x, w: x @ w, make(100), [(), ()]).kernels.values()
    assert kernel.scratch <= 2 * fixed.scratch
    assert kernels.guards == []


COLUMNS: dict[str, tuple[Any, Any, list[tuple[int, ...]]]] = {
    "plain": (lambda x, w: (x @ w).relu(), lambda n: [normal(9, 24), normal(24, n)], [(), (1,)]),
    "one_row": (lambda x, w, b: x @ w + b, lambda n: [normal(1, 24), normal(24, n), normal(n)], [(), (1,), (0,)]),
    "many_rows": (lambda x, w: x @ w, lambda n: [normal(130, 24), normal(24, n)], [(), (1,)]),
    "scores": (lambda q, k: q @ k.mT * 2, lambda n: [normal(3, n, 16), normal(3, n, 16)], [(1,), (1,)]),
    "itself": (lambda x: x @ x.t(), lambda n: [normal(n, 40)], [(0,)]),
    "all_sizes": (lambda x, y: x @ y, lambda n: [normal(n, n), normal(n, n)], [(0, 1), (0, 1)]),
    "with_the_batch": (lambda x, y: x @ y.mT, lambda n: [normal(n, 5, 20), normal(n, n, 20)], [(0,), (0, 1)]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_any_number_of_columns(name: str) -> None:
    function, make, dynamic = COLUMNS[name]
    kernels = SizedKernels(function, make(57), dynamic)
    assert kernels.guards == (["s0 <= 2048"] if name == "all_sizes" else [])
    for n in (2, 3, 15, 16, 17, 33, 57, 64, 65, 130):
        (found,) = kernels(*make(n))
        wanted = function(*(ad.from_numpy(a.astype(np.float64)) for a in make(n))).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=f"for {n}")


def test_columns_of_sums_in_stretches_are_for_one_size() -> None:
    relations = SizeRelations()
    n: Any = relations.add_symbol(57)
    plan = plan_matmul((), 8, n, 4096, MatrixStrides((), 4096, 1), MatrixStrides((), n, 1), F32, host())
    assert plan.n == 57
    assert relations.guards == {"s0 == 57": True}
