"""The calls that core/op/families.py writes out: they give what the plain call of an op gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op import families
from adjoint.core.op.apply import apply
from adjoint.core.op.op import op_of
from adjoint.ops.elementwise import arithmetic, comparison, transcendental

UNARY = [arithmetic.neg, transcendental.exp, transcendental.sin, arithmetic.abs]
BINARY = [arithmetic.add, arithmetic.sub, arithmetic.mul, arithmetic.div, arithmetic.pow, comparison.lt]
RANDOM = np.random.default_rng(0)
ARRAYS = [
    RANDOM.normal(size=(3, 2)).astype(np.float32), RANDOM.normal(size=(2,)), RANDOM.normal(size=()),
    RANDOM.integers(1, 5, (3, 1)), np.zeros((0, 2), np.float32),
]  # fmt: skip
NUMBERS = [2, -0.5]


def operand(value: Any, wants_gradient: bool) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    x = ad.tensor(value)
    return x.requires_grad_() if wants_gradient and x.is_floating_point() else x


def assert_same_call(function: Any, operands: tuple[Any, ...]) -> None:
    op = op_of(function)
    written_out, plain = function(*operands), apply(op, operands, {})
    assert written_out.dtype == plain.dtype
    np.testing.assert_array_equal(written_out.detach().numpy(), plain.detach().numpy())
    assert (written_out.grad_fn is None) == (plain.grad_fn is None)
    if plain.grad_fn is not None:
        assert type(written_out.grad_fn) is type(plain.grad_fn)
        leaves = [x for x in operands if isinstance(x, ad.Tensor) and x.requires_grad]
        g = ad.ones_like(plain.detach())
        for a, b in zip(ad.autograd.grad(written_out, leaves, g), ad.autograd.grad(plain, leaves, g), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.__name__)
@pytest.mark.parametrize("wants_gradient", [False, True])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_call_of_one_operand_is_the_plain_call(function: Any, array: Any, wants_gradient: bool) -> None:
    assert_same_call(function, (operand(array, wants_gradient),))


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
@pytest.mark.parametrize("wants", [(False, False), (True, False), (False, True), (True, True)])
def test_call_of_two_operands_is_the_plain_call(function: Any, wants: tuple[bool, bool]) -> None:
    for x in ARRAYS[:4]:
        for y in [*ARRAYS[:4], *NUMBERS]:
            assert_same_call(function, (operand(x, wants[0]), operand(y, wants[1])))
    for number in NUMBERS:
        assert_same_call(function, (number, operand(ARRAYS[0], wants[1])))
    x, y = operand(ARRAYS[0], wants[0]), operand(ARRAYS[4][:, :0], wants[1])
    with pytest.raises(RuntimeError, match="broadcast"):
        function(x, y)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradient_by_the_exponent_of_an_integer_base_has_the_precision_of_the_result(compiled: bool) -> None:
    base = ad.tensor([3, 4, 2], dtype=ad.int32)

    def slope(y: Any) -> Any:
        return ad.autograd.grad((base**y).sum(), y)[0]

    y = ad.tensor(1.304, dtype=ad.float64, requires_grad=True)
    exact = sum(b**1.304 * math.log(b) for b in (3, 4, 2))
    got = (ad.compile(slope) if compiled else slope)(y).item()
    assert got == pytest.approx(exact, rel=1e-14)


def test_comparisons_of_what_wants_a_gradient_call_no_plain_code(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ad.tensor([1.0, -2.0], requires_grad=True)
    monkeypatch.setattr(families, "apply", None)
    assert (x > 0).tolist() == [True, False]
    assert (x == x).tolist() == [True, True]
    assert ad.isnan(x).tolist() == [False, False]
    assert not (x > 0).requires_grad


def test_integers_and_truths_beside_floats_call_no_plain_code(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ad.tensor([1.0, -2.0], requires_grad=True)
    expected = [(x * ad.tensor(values, dtype=dtype)).tolist() for values, dtype in MIXED]
    monkeypatch.setattr(families, "apply", None)
    for (values, dtype), want in zip(MIXED, expected, strict=True):
        y = ad.tensor(values, dtype=dtype)
        for out in (x * y, y * x):
            assert out.dtype is ad.float32
            assert out.tolist() == want
        assert ad.autograd.grad((x * y).sum(), x)[0].tolist() == [float(v) for v in values]


MIXED = [([3, 4], ad.int64), ([3, 4], ad.uint8), ([True, False], ad.bool)]
