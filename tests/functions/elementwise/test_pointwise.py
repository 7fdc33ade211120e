"""Pointwise functions against PyTorch: values, promotion, gradients, errors."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint as ad

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
X = np.array([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]], np.float32)
Y = np.array([1.5, -0.5, 2.0], np.float32)
WHOLE = np.array([[3, -2, 0], [5, 1, -7]])
B = np.array([True, False, True])
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 1e30], np.float32)

UNARY = [
    "abs", "absolute", "acos", "arccos", "arcsin", "arctan", "asin", "atan", "ceil", "cos", "cosh", "erf", "exp",
    "exp2", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not", "neg",
    "negative", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "tan",
    "tanh", "trunc", "clone",
]  # fmt: skip
BINARY = [
    "add", "arctan2", "atan2", "div", "divide", "eq", "floor_divide", "fmod", "ge", "greater", "greater_equal", "gt",
    "le", "less", "less_equal", "logical_and", "logical_or", "logical_xor", "lt", "maximum", "minimum", "mul",
    "multiply", "ne", "not_equal", "pow", "remainder", "sub", "subtract", "true_divide",
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("values", [
    X, X.astype(np.float64), SPECIAL, WHOLE, np.float32(0.5) * np.ones(()), np.zeros((0, 2)),
])  # fmt: skip
def test_unary(name: str, values: Any) -> None:
    # float32 of NumPy's and PyTorch's libraries differ by a few units in the last place
    values = np.asarray(values)
    smooth = values is not SPECIAL
    if name == "sign" and not smooth:
        values = values[~np.isnan(values)]  # PyTorch's sign of NaN is 0; ours, as the array API's, stays NaN
    same(f"t.{name}(x)", x=values, gradient=smooth, factor=4)
    same(f"x.{name}()", x=values, gradient=smooth, factor=4)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(("x", "y"), [(X, Y), (X, X.astype(np.float64)), (WHOLE, np.array([2, 3, 4])), (Y, Y[:1])])
def test_binary(name: str, x: Any, y: Any) -> None:
    if name == "pow":
        x = np.abs(x)
        y = y.astype(x.dtype)  # PyTorch takes the logarithm in the type of x, ours in that of the result
    gradient = name != "floor_divide"  # PyTorch has none, ours is 0
    same(f"t.{name}(x, y)", x=x, y=y, gradient=gradient, factor=4)
    same(f"x.{name}(y)", x=x, y=y, gradient=gradient, factor=4)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("left", NAMES)
@pytest.mark.parametrize("right", [*NAMES, "True", "2", "2.5", "0-d float64", "0-d int64"])
@pytest.mark.parametrize("expression", [
    "x + y", "x * y", "x / y", "x < y", "x == y", "t.where(b, x, y)", "t.maximum(x, y)",
])  # fmt: skip
def test_promotion(left: str, right: str, expression: str) -> None:
    x = np.array([1, 0, 1]).astype(left)
    y: Any = {"True": True, "2": 2, "2.5": 2.5, "0-d float64": np.array(2.0), "0-d int64": np.array(2)}.get(right)
    if y is None:
        y = np.array([1, 1, 0]).astype(right)
    if "maximum" in expression and not isinstance(y, np.ndarray):
        pytest.skip("torch.maximum takes no numbers; ours does")
    same(expression, x=x, y=y, b=B, gradient=False, factor=4)


@pytest.mark.parametrize("number", [True, 2, 2.5])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("expression", [
    "n + x", "n - x", "n * x", "n / x", "x - n", "n ** x", "x ** n", "x // n", "x % n", "n > x",
])  # fmt: skip
def test_numbers(expression: str, name: str, number: Any) -> None:
    x = np.array([1, 3, 2]).astype(name)
    if name == "bool" and any(op in expression for op in ("-", "//", "%", "**")):
        pytest.skip("tested apart: PyTorch refuses some of these")
    if (number is True and "-" in expression) or (name == "uint8" and expression == "x ** n" and number == 2.5):
        pytest.skip("PyTorch refuses to subtract truths")
    same(expression, x=x, n=number, gradient=False, factor=4)


@pytest.mark.parametrize("expression", [
    "t.add(x, y, alpha=2)", "t.sub(x, y, alpha=0.5)", "t.rsub(x, y)", "t.rsub(x, y, alpha=3)", "x.add(y, alpha=-1)",
    "t.div(x, y, rounding_mode='floor')", "t.div(x, y, rounding_mode='trunc')", "t.div(x, y, rounding_mode=None)",
    "t.clamp(x, -0.5, 1.0)", "t.clamp(x, min=0.25)", "x.clamp(max=0.25)", "t.clip(x, 0, 1)", "t.clamp(x, y)",
    "t.clamp(x, max=y)", "t.clamp(x, 2.0, -2.0)", "t.addcmul(x, x, y)", "t.addcmul(x, x, y, value=2)",
    "t.addcdiv(x, x, y, value=0.5)", "t.lerp(x, y, 0.25)", "t.lerp(x, y, 0.75)", "t.lerp(x, y, y)",
    "t.masked_fill(x, b, 7)", "x.masked_fill(b, 7.5)", "x.masked_fill(b, t.tensor(7.5))", "t.where(b, x, y)",
    "t.where(b, x, 2)", "t.where(b, 1.5, y)", "t.where(b, 1, 2)", "t.where(b)", "x.where(b, y)", "t.isclose(x, y)",
    "t.allclose(x, x)", "t.allclose(x, y)", "t.equal(x, x)", "t.equal(x, y)", "t.isclose(s, s)",
    "t.isclose(s, s, equal_nan=True)", "t.round(x, decimals=1)", "x ** 2", "x ** 3", "x ** 0", "x ** -1",
    "2.0 ** x", "x.abs() ** 0.5", "x % y", "x.detach() // y.detach()", "-x", "abs(x)", "x > y", "x != y", "1 - x",
    "1 / x", "x.square()", "x.detach()", "t.pow(2, x)", "t.clamp(x, t.zeros(3), t.ones(3))",
])  # fmt: skip
def test_forms(expression: str) -> None:
    same(expression, x=X, y=Y, b=B, s=SPECIAL, factor=8)


@pytest.mark.parametrize("expression", [
    "i & j", "i | j", "i ^ j", "~i", "b & b", "b | ~b", "b ^ b", "~b", "i & 6", "b & i", "1 | i",
    "t.bitwise_and(i, j)", "t.bitwise_or(i, 3)", "t.bitwise_xor(i, j)", "t.bitwise_not(i)", "i ** j", "2 ** j",
    "i // j", "i % j", "-i", "abs(i)", "t.fmod(i, j)", "t.div(i, j, rounding_mode='trunc')",
    "t.div(i, j, rounding_mode='floor')", "t.clamp(i, 0.5)", "t.clamp(i, 0, 2)", "i / j", "t.sqrt(j)", "t.exp(i)",
    "i + True", "b + b", "b * b", "b / b", "b + 1", "b * 2.5", "t.floor(i)", "t.round(i)", "t.sign(i)",
    "t.square(i)", "t.reciprocal(j)", "i.masked_fill(b, 2)", "t.where(b, i, j)", "t.where(b, i, 2.5)", "i == 1.5",
    "i < 1.5", "j > 2",
])  # fmt: skip
def test_integers(expression: str) -> None:
    same(expression, i=WHOLE, j=np.array([2, 3, 4]), b=B)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("i // z", "ZeroDivisionError"),
        ("i % z", "ZeroDivisionError"),
        ("t.fmod(i, z)", "ZeroDivisionError"),
        ("i // 0", "ZeroDivisionError"),
        ("i ** -1", "Integers to negative integer powers are not allowed."),
        (
            "t.div(x, y, rounding_mode='up')",
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found",
        ),
        ("t.clamp(x)", "At least one of 'min' or 'max' must not be None"),
        ("x + w", "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"),
        ("x * w", "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"),
        ("t.where(i, x, y)", "where expected condition to be a boolean tensor, but got a tensor with dtype"),
        ("x.masked_fill(i, 1)", "only supports boolean masks"),
        ("x.masked_fill(b, y)", "only supports a 0-dimensional value tensor, but got tensor with 1 dimension(s)"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, x=X, y=Y, i=WHOLE, z=np.array([1, 0, 2]), w=np.ones(4, np.float32), b=B)


@pytest.mark.parametrize("expression", ["x + 'a'", "'a' * x", "x - None", "x < 'a'", "x @ 2", "t.add(x, 'a')"])
def test_foreign_operands(expression: str) -> None:
    same(expression, x=X)


@pytest.mark.parametrize("expression", ["x == 'a'", "x != None", "x == None", "x in [x]"])
def test_equality_with_foreign_objects(expression: str) -> None:
    same(expression, x=Y, gradient=False)


@pytest.mark.parametrize("exponent", [2, 3, 3.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_powers_are_pytorchs_to_the_bit(exponent: float, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    values = np.abs(np.random.default_rng(0).standard_normal(1000)).astype(dtype)
    assert np.array_equal((ad.tensor(values) ** exponent).numpy(), (torch.tensor(values) ** exponent).numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_power_of_a_half_is_the_root(dtype: str) -> None:
    values = np.abs(np.random.default_rng(0).standard_normal(1000)).astype(dtype)
    assert np.array_equal((ad.tensor(values) ** 0.5).numpy(), np.sqrt(values))
