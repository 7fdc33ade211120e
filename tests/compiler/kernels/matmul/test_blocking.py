"""The blocks of registers that are chosen for products, and which operands these read from packed panels."""

from __future__ import annotations

import pytest

from adjoint.compiler.kernels.matmul.blocking import MatrixStrides
from adjoint.compiler.kernels.matmul.plan import plan_product
from adjoint.compiler.llvm.jit.target import Target
from adjoint.compiler.llvm.types import F32

ZEN = Target.from_triple("x86_64-unknown-linux-gnu", "znver3", "+avx2,+fma")


@pytest.mark.parametrize(
    ("m", "n", "k", "packed"), [(64, 1200, 1200, True), (32, 320, 1280, True), (32, 32, 32, False)]
)
def test_rows_that_lie_apart_are_packed_if_a_block_reads_many(m: int, n: int, k: int, packed: bool) -> None:
    """Also for few rows: a wide weight is read a few columns at a time, each step from another page."""
    plan = plan_product((), m, n, k, MatrixStrides((), k, 1), MatrixStrides((), n, 1), F32, ZEN)
    assert plan.blocking.pack_right is packed
    assert not plan.blocking.pack_left


@pytest.mark.parametrize(
    ("m", "n", "k", "packed"), [(1200, 784, 64, True), (8000, 128, 700, True), (96, 32, 24, False)]
)
def test_columns_of_a_left_operand_are_packed_if_they_lie_apart(m: int, n: int, k: int, packed: bool) -> None:
    plan = plan_product((), m, n, k, MatrixStrides((), 1, m), MatrixStrides((), n, 1), F32, ZEN)
    assert (plan.blocking.pack_left or plan.blocking.pack_right) is packed
