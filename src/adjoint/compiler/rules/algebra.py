"""Identities of arithmetic that hold to the last bit, for NaN, infinities and signed zeros too."""

from __future__ import annotations

from typing import Any

from adjoint.compiler.match import rule
from adjoint.ops.arithmetic import add, div, mul, neg, pow, relu, square, sub
from adjoint.ops.selection import choose, copy, where


@rule
def times_one(x: Any) -> Any:
    return mul(x, 1.0), x


@rule
def one_times(x: Any) -> Any:
    return mul(1.0, x), x


@rule
def over_one(x: Any) -> Any:
    return div(x, 1.0), x


@rule
def less_zero(x: Any) -> Any:
    return sub(x, 0.0), x


@rule
def to_the_first(x: Any) -> Any:
    return pow(x, 1.0), x


@rule
def to_the_second(x: Any) -> Any:
    return pow(x, 2.0), square(x)


@rule
def minus_minus(x: Any) -> Any:
    return neg(neg(x)), x


@rule
def plus_minus(x: Any, y: Any) -> Any:
    return add(x, neg(y)), sub(x, y)


@rule
def less_minus(x: Any, y: Any) -> Any:
    return sub(x, neg(y)), add(x, y)


@rule
def minus_times_minus(x: Any, y: Any) -> Any:
    return mul(neg(x), neg(y)), mul(x, y)


@rule
def square_of_minus(x: Any) -> Any:
    return square(neg(x)), square(x)


@rule
def relu_twice(x: Any) -> Any:
    return relu(relu(x)), relu(x)


@rule
def copy_twice(x: Any) -> Any:
    return copy(copy(x)), copy(x)


@rule
def where_both_same(c: Any, x: Any) -> Any:
    return where(c, x, x), x


@rule
def chosen_both_same(c: Any, x: Any) -> Any:
    return choose(c, x, x), x
