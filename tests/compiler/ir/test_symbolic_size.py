"""Symbolic sizes: integers whose arithmetic is exact for every value, and whose open questions become guards."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from adjoint.compiler.ir.symbolic_size import (
    SizeRelations,
    evaluate_size,
    has_symbols,
    is_known_less,
    is_multiple,
    is_symbolic_size,
    size_value,
)


@pytest.fixture
def sizes() -> tuple[SizeRelations, Any, Any]:
    relations = SizeRelations()
    return relations, relations.add_symbol(57), relations.add_symbol(31)


def random_size(random: random.Random, n: Any, m: Any) -> Any:
    """Some arithmetic of two numbers, the same for whatever they are."""
    x = random.choice([n, m])
    for _ in range(random.randrange(1, 6)):
        y = random.choice([n, m, random.randrange(1, 20)])
        kind = random.randrange(6)
        x = [x + y, x * y, y - x, x // random.randrange(1, 9), -(-x // random.randrange(1, 9)), x % 16 + y][kind]
    return x


@pytest.mark.parametrize("seed", range(60))
def test_arithmetic_is_that_of_integers_for_every_value(seed: int) -> None:
    relations = SizeRelations()
    n, m = relations.add_symbol(57), relations.add_symbol(31)
    size = random_size(random.Random(seed), n, m)
    for values in ((2, 2), (2, 999), (57, 31), (16, 48), (1000, 7)):
        expected = random_size(random.Random(seed), *values)
        assert evaluate_size(size, {"s0": values[0], "s1": values[1]}) == expected
        if is_symbolic_size(size):
            assert eval(repr(size), {"s0": values[0], "s1": values[1]}) == expected
    assert not relations.guards


@pytest.mark.parametrize("seed", range(60))
def test_answers_without_a_guard_are_right_for_every_value(seed: int) -> None:
    relations = SizeRelations()
    n, m = relations.add_symbol(57), relations.add_symbol(31)
    a, b = random_size(random.Random(seed), n, m), random_size(random.Random(seed + 1000), n, m)
    answers = a == b, a < b, a <= b, a > b, a >= b
    known = not relations.guards
    for values in ((2, 2), (57, 31), (31, 57), (8, 640), (333, 5)):
        x, y = random_size(random.Random(seed), *values), random_size(random.Random(seed + 1000), *values)
        guards = [eval(code, {"s0": values[0], "s1": values[1]}) is answer for code, answer in relations.guards.items()]
        if known or all(guards):
            assert answers == (x == y, x < y, x <= y, x > y, x >= y)


@pytest.mark.parametrize("seed", range(60))
def test_bounds_hold_for_all_symbols_up_to_the_highest(seed: int) -> None:
    relations = SizeRelations()
    n, m = relations.add_symbol(57), relations.add_symbol(31)
    size, draw = random_size(random.Random(seed), n, m), random.Random(seed)
    with relations.bounding({"s0": 40, "s1": 25}):
        bound = size_value(size)
        assert [size_value(x) for x in (n, 3 * n * m + 1, 64 - n, 16 + n % 32)] == [40, 3001, 62, 47]
    assert size_value(n) == 57
    for _ in range(100):
        assert evaluate_size(size, {"s0": draw.randrange(2, 41), "s1": draw.randrange(2, 26)}) <= bound


def test_most_questions_need_no_guard(sizes: tuple[SizeRelations, Any, Any]) -> None:
    relations, n, m = sizes
    assert n + 1 > n
    assert n != 1
    assert n != 0
    assert bool(n)
    assert n * 8 >= 16
    assert 16 * n % 16 == 0
    assert (784 * n) // 784 == n
    assert n * m // m == n
    assert n % 16 < 16
    assert n - n == 0
    assert (n, 10) == (n, 10)
    assert hash((n, 10)) == hash((n, 10))
    assert 2 * n == n * 2
    assert n * m == m * n
    assert max(n, 1) is n
    assert math.prod((n, 1, m)) == m * n
    assert is_multiple(32 * n, 16)
    assert not is_multiple(n, 16)
    assert is_known_less(n, n + 1)
    assert not is_known_less(n, 100)
    assert not relations.guards


def test_the_rest_becomes_a_guard_with_its_answer(sizes: tuple[SizeRelations, Any, Any]) -> None:
    relations, n, m = sizes
    assert n != 784
    assert n < 100
    assert n != m
    assert 3 * n + 1 > 2 * m
    assert relations.guards == {"s0 == 784": False, "s0 < 100": True, "s0 == s1": False, "3*s0 + 1 > 2*s1": True}


@pytest.mark.parametrize(
    "read", [lambda n: range(n), int, float, str, lambda n: f"{n:3}", lambda n: n.bit_length(), lambda n: 1 << n]
)
def test_whoever_takes_a_plain_number_gets_it_and_a_guard(read: Any, sizes: tuple[SizeRelations, Any, Any]) -> None:
    relations, n, _ = sizes
    assert read(n) == read(57)
    assert relations.guards == {"s0 == 57": True}


@pytest.mark.parametrize(
    "settle", [int, lambda n: n == 57, lambda n: n == 57.0, lambda n: 2 * n + 1 == 115, lambda n: (3 * n).__index__()]
)
def test_a_size_that_a_program_takes_for_a_number_is_that_number(settle: Any, sizes: Any) -> None:
    relations, n, m = sizes
    assert settle(n)
    relations.is_traced = True
    assert n == 57
    assert (3, n) == (3, 57)
    assert n != 58
    assert 2 * n * m == 114 * m
    assert n != m


def test_it_passes_for_an_integer(sizes: tuple[SizeRelations, Any, Any]) -> None:
    _, n, m = sizes
    assert isinstance(n, int)
    assert not hasattr(n, "shape")
    assert (size_value(n), size_value(7), size_value(n * m)) == (57, 7, 57 * 31)
    assert has_symbols((1, (n,)))
    assert not has_symbols((1, (2,)))
    assert repr((n, 2 * n - 3)) == "(s0, 2*s0 - 3)"
    assert round(n / 2, 3) == 28.5
    assert divmod(n, 1) == (n, 0)
    assert n**3 == n * n * n


def test_passes_take_sizes_for_equal_only_if_they_always_are(sizes: tuple[SizeRelations, Any, Any]) -> None:
    relations, n, m = sizes
    relations.is_traced = True
    assert n != 57
    assert n != m
    assert n + m == m + n
    assert not relations.guards


def test_a_sealed_program_takes_no_further_guard(sizes: tuple[SizeRelations, Any, Any]) -> None:
    relations, n, _ = sizes
    relations.seal()
    with pytest.raises(AssertionError, match="relies on s0 == 57"):
        range(n)


def test_values_are_those_of_the_moment(sizes: tuple[SizeRelations, Any, Any]) -> None:
    relations, n, m = sizes
    with relations.taking({"s0": 5, "s1": 2}):
        assert size_value(n + m) == 7
    assert size_value(n + m) == 88


def test_a_quotient_is_at_least_that_of_the_least_size(sizes: Any) -> None:
    relations, n, _ = sizes
    assert n // 2 >= 1
    assert (3 * n + 1) // 4 > 0
    assert n // 2 * n > 1
    assert not relations.guards
    assert n // 3 >= 1
    assert list(relations.guards.values()) == [True]
