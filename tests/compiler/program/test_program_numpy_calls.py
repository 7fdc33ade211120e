"""Ops that a program leaves to NumPy: numbers among their operands, their errors, their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

pytest.importorskip("llvmlite")
DIVISIONS: dict[str, Callable[[Any], Any]] = {
    "a // 0": lambda a: a // 0, "a % 0": lambda a: a % 0, "fmod": lambda a: ad.fmod(a, 0), "5 // a": lambda a: 5 // a,
    "5 % a": lambda a: 5 % a, "rounded": lambda a: ad.div(a, 0, rounding_mode="floor"),
    "truncated": lambda a: ad.div(a, 0, rounding_mode="trunc"),
}  # fmt: skip


@pytest.mark.parametrize("kind", [ad.int64, ad.int32, ad.uint8])
@pytest.mark.parametrize("name", DIVISIONS)
def test_an_error_is_the_eager_one_and_names_the_line(name: str, kind: Any) -> None:
    a = ad.tensor([3, 1, 0], dtype=kind)
    with pytest.raises(RuntimeError) as eager:
        DIVISIONS[name](a)
    with pytest.raises(RuntimeError) as compiled:
        ad.compile(DIVISIONS[name])(a)
    assert str(compiled.value) == str(eager.value)
    assert any(entry.name == "<lambda>" for entry in compiled.traceback)  # the step's line


@pytest.mark.parametrize("kind", [ad.int64, ad.int32, ad.uint8, ad.int8])
def test_a_number_takes_the_type_of_the_tensor(kind: Any) -> None:
    def step(a: Any) -> Any:
        return a // 3, a % 3, ad.fmod(a, 3), 200 // (a + 1), a**2, ad.fmod(a, 2.5), a ** (a - 2), 2 ** (a - 2)

    a = ad.tensor([0, 4, 7], dtype=kind)
    for got, expected in zip(ad.compile(step)(a), step(a), strict=True):
        assert got.dtype is expected.dtype
        assert got.tolist() == expected.tolist()


def test_an_error_comes_though_nobody_needs_the_result() -> None:
    def step(a: Any, b: Any) -> Any:
        a // b
        return a + 1

    compiled = ad.compile(step)
    assert compiled(ad.tensor([6]), ad.tensor([2])).tolist() == [7]
    with pytest.raises(RuntimeError, match="floor_divide of integers by zero"):
        compiled(ad.tensor([6]), ad.tensor([0]))
