"""Identities of truths and of choosing by them. No order is negated: neither x < y nor x ≥ y holds for NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from adjoint.compiler.passes.pattern import rule
from adjoint.compiler.passes.rules.algebra import dtype_kind
from adjoint.core.typing import Function, NumpyDtype, Operand
from adjoint.ops.elementwise.bitwise import bitwise_and, bitwise_not, bitwise_or
from adjoint.ops.elementwise.comparison import eq, ge, gt, le, logical_and, logical_not, logical_or, lt, ne
from adjoint.ops.elementwise.select import cast, choose, where

if TYPE_CHECKING:
    from adjoint.core.tensor.tensor import Tensor


@rule
def not_not(c: Tensor) -> Iterator[Operand]:
    yield logical_not(logical_not(c))
    yield c


@rule
def not_equal(x: Tensor, y: Operand) -> Iterator[Operand]:
    yield logical_not(eq(x, y))
    yield ne(x, y)


@rule
def not_unequal(x: Tensor, y: Tensor) -> Iterator[Operand]:
    yield logical_not(ne(x, y))
    yield eq(x, y)


@rule(order=[lt, le, gt, ge])
def not_ordered(x: Tensor, y: Operand, *, order: Function) -> Iterator[Operand]:
    yield logical_not(order(x, y))
    if "f" not in (dtype_kind(x), dtype_kind(y)):
        yield {lt: ge, le: gt, gt: le, ge: lt}[order](x, y)


@rule(op=[logical_and, logical_or, bitwise_and, bitwise_or])
def the_same_twice(c: Tensor, *, op: Function) -> Iterator[Operand]:
    yield op(c, c)
    yield c


@rule
def bits_not_not(x: Tensor) -> Iterator[Operand]:
    yield bitwise_not(bitwise_not(x))
    yield x


@rule
def and_true(c: Tensor) -> Iterator[Operand]:
    yield logical_and(c, True)
    yield c


@rule
def or_false(c: Tensor) -> Iterator[Operand]:
    yield logical_or(c, False)
    yield c


@rule
def truth_as_number_is_not_zero(c: Tensor, *, dtype: NumpyDtype) -> Iterator[Operand]:
    yield ne(cast(c, dtype=dtype), 0)
    yield c


@rule
def choose_as_where(c: Tensor, x: Operand, y: Operand) -> Iterator[Operand]:
    yield choose(c, x, y)  # it differs in its gradient, which is there by now
    yield where(c, x, y)


@rule
def where_both_same(c: Tensor, x: Operand) -> Iterator[Operand]:
    yield where(c, x, x)
    yield x


@rule
def where_not(c: Tensor, x: Operand, y: Operand) -> Iterator[Operand]:
    yield where(logical_not(c), x, y)
    yield where(c, y, x)


@rule
def where_within_where(c: Tensor, x: Operand, y: Operand, z: Operand) -> Iterator[Operand]:
    yield where(c, where(c, x, y), z)
    yield where(c, x, z)


@rule
def where_within_else(c: Tensor, x: Operand, y: Operand, z: Operand) -> Iterator[Operand]:
    yield where(c, x, where(c, y, z))
    yield where(c, x, z)
