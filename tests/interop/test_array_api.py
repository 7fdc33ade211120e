"""The array API standard: what every function of `adjoint.array_api` gives is what NumPy's of that name gives."""

import inspect
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.array_api import make_strategies_namespace
from hypothesis.strategies import data, sampled_from
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint import array_api as xp

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
SHAPES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 3), (0,), (2, 0, 3), (1, 3, 2))
PAIRS = [((), ()), ((3,), ()), ((), (2, 3)), ((2, 3), (3,)), ((2, 1, 3), (4, 1)), ((0, 3), (3,)), ((1,), (0,))]
KINDS = {"b": ("bool",), "i": INTEGERS, "f": FLOATS, "c": COMPLEX}
UNARY = {  # kinds of elements, and the range of real ones
    "abs": ("ifc", -9, 9), "acos": ("fc", -1, 1), "acosh": ("fc", 1, 9), "asin": ("fc", -1, 1), "asinh": ("fc", -9, 9),
    "atan": ("fc", -9, 9), "atanh": ("fc", -1, 1), "bitwise_invert": ("bi", -9, 9), "ceil": ("if", -9, 9),
    "conj": ("ifc", -9, 9), "cos": ("fc", -9, 9), "cosh": ("fc", -4, 4), "exp": ("fc", -9, 9), "expm1": ("fc", -4, 4),
    "floor": ("if", -9, 9), "imag": ("ifc", -9, 9), "isfinite": ("ifc", -9, 9), "isinf": ("ifc", -9, 9),
    "isnan": ("ifc", -9, 9), "log": ("fc", 0, 9), "log10": ("fc", 0, 9), "log1p": ("fc", -0.9, 9), "log2": ("fc", 0, 9),
    "logical_not": ("b", 0, 2), "negative": ("ifc", -9, 9), "positive": ("ifc", -9, 9), "real": ("ifc", -9, 9),
    "reciprocal": ("f", -9, 9), "round": ("ifc", -9, 9), "sign": ("ifc", -9, 9), "signbit": ("f", -9, 9),
    "sin": ("fc", -9, 9), "sinh": ("fc", -4, 4), "sqrt": ("fc", 0, 9), "square": ("ifc", -9, 9), "tan": ("fc", -1, 1),
    "tanh": ("fc", -4, 4), "trunc": ("if", -9, 9),
}  # fmt: skip
BINARY = {
    "add": "ifc", "atan2": "f", "bitwise_and": "bi", "bitwise_left_shift": "i", "bitwise_or": "bi",
    "bitwise_right_shift": "i", "bitwise_xor": "bi", "copysign": "f", "divide": "fc", "equal": "bifc",
    "floor_divide": "if", "greater": "if", "greater_equal": "if", "hypot": "f", "less": "if", "less_equal": "if",
    "logaddexp": "f", "logical_and": "b", "logical_or": "b", "logical_xor": "b", "maximum": "if", "minimum": "if",
    "multiply": "ifc", "nextafter": "f", "not_equal": "bifc", "pow": "if", "remainder": "if", "subtract": "ifc",
}  # fmt: skip
REDUCTIONS = {
    "all": "bifc", "any": "bifc", "count_nonzero": "bifc", "max": "if", "mean": "fc", "min": "if", "prod": "ifc",
    "std": "f", "sum": "ifc", "var": "f",
}  # fmt: skip
ARRAYS = make_strategies_namespace(xp)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.5, np.inf, -np.inf, np.nan, 1e-320, 1e300, -1e300]


def drawn(shape: tuple[int, ...], kind: str, low: float = -9, high: float = 9, seed: int = 0) -> Any:
    """Numbers of a type between two bounds; unsigned ones from 0, bools both."""
    numbers = np.random.default_rng([seed, *shape, len(kind)])
    dtype = np.dtype(kind)
    if dtype.kind == "b":
        return numbers.random(shape) < 0.5
    values = numbers.uniform(0 if dtype.kind == "u" else low, high, shape)
    if dtype.kind == "c":
        values = values + 1j * numbers.uniform(low, high, shape)
    return np.asarray(values).astype(dtype)


def agree(ours: Any, theirs: Any, what: str, tolerance: float = 1e-6) -> None:
    """Same type, shape and, to rounding, elements."""
    theirs = np.asarray(theirs)
    assert isinstance(ours, ad.Tensor), what
    assert ours.dtype == theirs.dtype, f"{what}: {ours.dtype}, expected {theirs.dtype}"
    assert tuple(ours.shape) == theirs.shape, f"{what}: {ours.shape}, expected {theirs.shape}"
    double = theirs.dtype in (np.float64, np.complex128)
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs, rtol=1e-12 if double else 4 * tolerance, atol=1e-12 if double else tolerance,
        err_msg=what,
    )  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_function_of_one(name: str) -> None:
    kinds, low, high = UNARY[name]
    for kind, shape in itertools.product([k for key in kinds for k in KINDS[key]], SHAPES):
        x = drawn(shape, kind, low, high)
        if name in ("real", "conj", "imag"):
            expected = getattr(np, name)(x).astype(x.real.dtype if name != "conj" else x.dtype)
        elif name in ("round", "ceil", "floor", "trunc") and x.dtype.kind in "iu":
            expected = x
        else:
            with np.errstate(all="ignore"):
                expected = getattr(np, name)(x)
        agree(getattr(xp, name)(xp.asarray(x)), expected, f"{name}({kind}{shape})")


def together(kinds: str) -> list[tuple[str, str]]:
    """Pairs of types that the standard lets meet."""
    pairs = []
    for key in kinds:
        for a, b in itertools.product(KINDS[key], KINDS[key]):
            signs = {np.dtype(a).kind, np.dtype(b).kind}
            if not ("uint64" in (a, b) and "i" in signs):
                pairs.append((a, b))
    return pairs


@pytest.mark.parametrize("name", BINARY)
def test_function_of_two(name: str) -> None:
    for (a, b), (p, q) in itertools.product(together(BINARY[name]), PAIRS):
        x, y = drawn(p, a, seed=1), drawn(q, b, seed=2)
        if name in ("floor_divide", "remainder", "divide"):
            y = np.where(y == 0, np.ones((), b), y)
        if "shift" in name or (name == "pow" and np.dtype(b).kind in "iu"):
            x, y = np.abs(x), (np.abs(y) % 5).astype(b)
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(x, y)
        agree(getattr(xp, name)(xp.asarray(x), xp.asarray(y)), expected, f"{name}({a}{p}, {b}{q})", 1e-5)


@pytest.mark.parametrize("name", [n for n, kinds in BINARY.items() if "f" in kinds])
@pytest.mark.parametrize("kind", FLOATS)
def test_special_values_of_two(name: str, kind: str) -> None:
    with np.errstate(all="ignore"):
        x, y = (v.ravel() for v in np.meshgrid(*2 * [np.asarray(SPECIAL, kind)]))
        expected = np.asarray(getattr(np, name)(x, y))
    ours = getattr(xp, name)(xp.asarray(x), xp.asarray(y)).numpy()
    np.testing.assert_allclose(ours, expected, rtol=1e-6)
    if expected.dtype.kind == "f":
        zeros = (expected == 0) & np.isfinite(x) & np.isfinite(y)
        np.testing.assert_array_equal(np.signbit(ours[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize("name", [n for n, (kinds, _, _) in UNARY.items() if "f" in kinds])
@pytest.mark.parametrize("kind", FLOATS)
def test_special_values_of_one(name: str, kind: str) -> None:
    with np.errstate(all="ignore"):
        x = np.asarray(SPECIAL, kind)
        expected = np.asarray(getattr(np, name)(x))
    ours = getattr(xp, name)(xp.asarray(x)).numpy()
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    if expected.dtype.kind == "f" and name != "imag":
        there = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(ours[there]), np.signbit(expected[there]))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name: str) -> None:
    for kind in (k for key in REDUCTIONS[name] for k in KINDS[key]):
        for shape, axis in (((), None), ((3,), 0), ((2, 3), -1), ((2, 3, 4), (0, -1)), ((2, 3, 4), None), ((2, 3), ())):
            for keepdims in (False, True):
                x = drawn(shape, kind, -2, 3)
                expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
                if name == "count_nonzero":
                    expected = np.asarray(expected, np.int64)
                ours = getattr(xp, name)(xp.asarray(x), axis=axis, keepdims=keepdims)
                agree(ours, expected, f"{name}({kind}{shape}, axis={axis})", 1e-5)


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_sums_in_another_type(name: str) -> None:
    for kind, wanted in itertools.product(("int8", "uint8", "float32"), ("float64", "int64", "uint64", "complex64")):
        x = drawn((2, 3), kind, -2, 3)
        if np.dtype(wanted).kind == "u":
            x = np.abs(x)
        ours = getattr(xp, name)(xp.asarray(x), axis=0, dtype=getattr(xp, wanted))
        agree(ours, getattr(np, name)(x.astype(wanted), axis=0, dtype=wanted), f"{name} {kind} in {wanted}")


@pytest.mark.parametrize("correction", [0, 1, 0.5])
def test_correction(correction: float) -> None:
    x = drawn((3, 4), "float64")
    agree(xp.var(xp.asarray(x), axis=1, correction=correction), np.var(x, 1, ddof=correction), "var")  # type: ignore[call-overload]
    agree(xp.std(xp.asarray(x), correction=correction), np.std(x, ddof=correction), "std")  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("kind", [*INTEGERS, *FLOATS])
def test_running(name: str, kind: str) -> None:
    for shape, axis in (((4,), None), ((2, 3), 1), ((2, 3), -2), ((0, 2), 0)):
        for initial in (False, True):
            x = drawn(shape, kind, -2, 3)
            expected = getattr(np, name)(x, axis=axis, include_initial=initial)
            ours = getattr(xp, name)(xp.asarray(x), axis=axis, include_initial=initial)
            agree(ours, expected, f"{name}({kind}{shape})")
    assert_raises(ValueError, "needs an axis", lambda: getattr(xp, name)(xp.ones((2, 2))))


def test_spread_of_too_few_is_not_a_number() -> None:
    for correction in (2, 3):
        for spread in (xp.var, xp.std):
            with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
                assert np.isnan(spread(xp.asarray([1.0, 2.0]), correction=correction).item())


def test_signed_bounds_of_the_largest_integers() -> None:
    x = xp.asarray([1, 2, 3], dtype=xp.uint64)
    low, high = xp.asarray(-1, dtype=xp.int8), xp.asarray(2, dtype=xp.int64)
    found = xp.clip(x, low, high)
    assert (found.tolist(), found.dtype) == ([1, 2, 2], xp.uint64)


def test_bounds_beyond_the_range_of_a_signed_type() -> None:
    x = xp.asarray([-5, 3, 100], dtype=xp.int8)
    assert xp.clip(x, xp.asarray(2, dtype=xp.uint64)).tolist() == [2, 3, 100]
    found = xp.clip(x, None, xp.asarray([2**63 + 5, 7, 50], dtype=xp.uint64))
    assert (found.tolist(), found.dtype) == ([-5, 3, 50], xp.int8)


def test_a_vector_is_solved_for_each_of_a_stack() -> None:
    assert xp.linalg.solve(xp.ones((1, 1, 1)), xp.zeros((1,))).shape == (1, 1)
    assert xp.linalg.solve(2 * xp.ones((3, 1, 1)), xp.ones((1,))).tolist() == [[0.5]] * 3


CALLS: dict[str, list[tuple[Any, ...]]] = {
    "broadcast_to": [("x1", (4, 3)), ("s", (2, 2))], "expand_dims": [("x", 0), ("x", -1), ("x", 1)],
    "flip": [("x",), ("x", {"axis": 0}), ("x", {"axis": (0, -1)})], "moveaxis": [("x3", 0, 2), ("x3", (0, 1), (-1, 0))],
    "permute_dims": [("x3", (2, 0, 1))], "repeat": [("x", 2), ("x", 2, {"axis": 1}), ("x", "i3", {"axis": 1})],
    "reshape": [("x", (3, 2)), ("x", (-1,)), ("s", (1, 1)), ("x", (3, 2), {"copy": True})],
    "roll": [("x", 1), ("x", (1, -5), {"axis": (0, 1)}), ("x", -1, {"axis": 1}), ("s", 3)],
    "squeeze": [("x131", 0), ("x131", (0, -1))], "tile": [("x", (2,)), ("x", (2, 1, 3)), ("s", (2,))],
    "tril": [("x",), ("x3", {"k": -1})], "triu": [("x",), ("x3", {"k": 1})], "matrix_transpose": [("x3",)],
    "matmul": [("x", "y"), ("x1", "y"), ("x", "x1"), ("x3", "x3t"), ("x1", "x1")],
    "tensordot": [("x", "y", {"axes": 1}), ("x3", "x3", {"axes": ([0, 1], [0, 1])}), ("x", "x", {"axes": 2})],
    "vecdot": [("x", "x"), ("x3", "x3", {"axis": -2}), ("x", "x1")], "diff": [("x",), ("x", {"axis": 0, "n": 1}),
        ("x", {"prepend": "x", "append": "x"}), ("x", {"n": 2})],
    "argmax": [("x",), ("x", {"axis": 1}), ("x", {"axis": 0, "keepdims": True})],
    "argmin": [("x",), ("x", {"axis": 1})],
    "sort": [("x",), ("x", {"axis": 0})], "argsort": [("x",), ("x", {"axis": 0})], "nonzero": [("x",), ("x3",)],
    "take": [("x1", "i2"), ("x3", "i2", {"axis": 1})], "take_along_axis": [("x", "ii", {"axis": 1}), ("x", "ii")],
    "searchsorted": [("ordered", "x"), ("ordered", "x", {"side": "right"})],
    "unique_values": [("x",)], "unique_counts": [("x",)], "unique_inverse": [("x",)], "unique_all": [("x",)],
    "clip": [("x", None, None), ("x", 1, None), ("x", 1, 3), ("x", None, 3), ("x", "x1", 5)],
    "meshgrid": [("x1", "i2f")],
    "unstack": [("x3",), ("x3", {"axis": -1})], "where": [("mask", "x", "x1"), ("mask", "x", 1), ("mask", 2, "s")],
    "broadcast_arrays": [("x", "x1", "s")],
}  # fmt: skip


def environment(kind: str) -> dict[str, Any]:
    """Arrays by name for the calls above."""
    low = 0 if np.dtype(kind).kind == "u" else -4
    given = {name: drawn(shape, kind, low, 5, seed=i) for i, (name, shape) in enumerate({
        "x": (2, 3), "x1": (3,), "x3": (2, 3, 4), "x131": (1, 3, 1), "y": (3, 4), "s": (), "x3t": (2, 4, 2),
        "ordered": (6,), "i2f": (2,),
    }.items())}  # fmt: skip
    return given | {
        "ordered": np.sort(given["ordered"]), "i2": np.array([2, 0]), "i3": np.array([0, 2, 1]),
        "ii": np.array([[2, 0, 1], [0, -1, 2]]), "mask": np.array([[True, False, True], [False, True, False]]),
    }  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["int8", "uint16", "uint64", "int64", "float32", "float64"])
def test_call(name: str, kind: str) -> None:
    arrays = environment(kind)
    for call in CALLS[name]:
        named = call[-1] if isinstance(call[-1], dict) else {}
        plain = call[: len(call) - bool(named)]
        theirs = getattr(np, name)(*bound(plain, arrays), **bound(named, arrays))
        ours = getattr(xp, name)(*bound(plain, arrays, xp.asarray), **bound(named, arrays, xp.asarray))
        both = (ours, theirs) if isinstance(theirs, (tuple, list)) else ((ours,), (theirs,))
        for a, b in zip(*both, strict=True):
            agree(a, np.sort(b) if name == "unique_values" else b, f"{name}{call}")


def bound(call: Any, arrays: dict[str, Any], made: Any = lambda x: x) -> Any:
    """Names replaced by what they stand for."""
    if isinstance(call, dict):
        return {k: made(arrays[v]) if k in ("prepend", "append") else v for k, v in call.items()}
    return [made(arrays[v]) if isinstance(v, str) else v for v in call]


def test_concat_and_stack_meet_in_one_type() -> None:
    for a, b in together("if"):
        x, y = drawn((2, 3), a), drawn((2, 3), b)
        for axis in (0, -1, None):
            agree(xp.concat([xp.asarray(x), xp.asarray(y)], axis=axis), np.concat([x, y], axis=axis), "concat")
        agree(xp.stack([xp.asarray(x), xp.asarray(y)], axis=-1), np.stack([x, y], axis=-1), "stack")


def test_descending_order_keeps_equal_elements_in_theirs() -> None:
    x = xp.asarray([2, 1, 2, 0, 1])
    assert xp.argsort(x, descending=True).tolist() == [0, 2, 1, 4, 3]
    assert xp.sort(x, descending=True).tolist() == [2, 2, 1, 1, 0]


def test_each_nan_is_distinct() -> None:
    found = xp.unique_all(xp.asarray([np.nan, 1.0, np.nan, 0.0, -0.0]))
    assert (found.counts.tolist(), found.inverse_indices.shape) == ([2, 1, 1, 1], (5,))
    assert np.isnan(found.values.numpy()).sum() == 2


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!="])
@pytest.mark.parametrize("kind", ["int8", "uint8", "uint32", "int64", "float32", "float64"])
def test_operators_with_numbers(operator: str, kind: str) -> None:
    x = np.abs(drawn((2, 3), kind)) + np.ones((), kind)
    for number in (2, 2.5) if kind.startswith("float") else (2,):
        for text in (f"x {operator} {number}", f"{number} {operator} x"):
            expected = eval(text, {"x": x})
            ours = eval(text, {"x": xp.asarray(x)})
            if operator == "/" and not kind.startswith("float"):
                expected = expected.astype(np.float32)
            agree(ours, expected, text)


def test_result_type() -> None:
    assert xp.result_type(xp.uint8, xp.int8) is xp.int16
    assert xp.result_type(xp.uint32, xp.int8, xp.int16) is xp.int64
    assert xp.result_type(xp.float32, xp.complex64) is xp.complex64
    assert xp.result_type(xp.float64, xp.complex64) is xp.complex128
    assert xp.result_type(xp.ones(3), xp.zeros((), dtype=xp.float64)) is xp.float64
    assert xp.result_type(xp.int8, 1) is xp.int8
    assert xp.result_type(xp.float32, 1j) is xp.complex64
    assert_raises(TypeError, "no integer type holds both", xp.result_type, xp.uint64, xp.int8)
    assert_raises(TypeError, "one argument must be", xp.result_type, 1, 2)


def test_types() -> None:
    assert xp.can_cast(xp.int8, xp.int16)
    assert not xp.can_cast(xp.int16, xp.int8)
    assert xp.can_cast(xp.float32, xp.complex64)
    assert not xp.can_cast(xp.int8, xp.float64)
    assert not xp.can_cast(xp.uint64, xp.int64)
    assert xp.can_cast(xp.ones(2, dtype=xp.uint8), xp.uint16)
    assert xp.isdtype(xp.int8, "signed integer")
    assert xp.isdtype(xp.uint8, ("bool", xp.uint8))
    assert not xp.isdtype(xp.bool, "numeric")
    assert_raises(ValueError, "is no category", xp.isdtype, xp.int8, "real")
    for name in FLOATS:
        limits, theirs = xp.finfo(getattr(xp, name)), np.finfo(name)
        assert (limits.eps, limits.max, limits.bits) == (theirs.eps, theirs.max, theirs.bits)
        assert limits.dtype is getattr(xp, name)
        assert type(limits.eps) is float
    assert xp.finfo(xp.complex64) == xp.finfo(xp.ones(1))
    assert xp.finfo(xp.complex64).dtype is xp.float32
    for name in INTEGERS:
        bounds = xp.iinfo(getattr(xp, name))
        assert (bounds.min, bounds.max, bounds.bits) == (np.iinfo(name).min, np.iinfo(name).max, np.iinfo(name).bits)
    assert_raises(TypeError, "expected an integer type", xp.iinfo, xp.float32)
    assert_raises(TypeError, "expected a floating type", xp.finfo, xp.int32)


def test_astype() -> None:
    x = xp.asarray([1.5, -2.5])
    assert xp.astype(x, xp.int64).tolist() == [1, -2]
    assert xp.astype(x, xp.float32, copy=False) is x
    assert xp.astype(x, xp.float32) is not x
    assert_raises(TypeError, "imaginary", lambda: xp.astype(xp.asarray([1j]), xp.float32))


def test_creation() -> None:
    assert xp.arange(3).dtype is xp.int64
    assert xp.arange(3.0).dtype is xp.float32
    assert xp.arange(5, 1).shape == (0,)
    assert xp.arange(5, 1, -2).tolist() == [5, 3]
    assert xp.arange(0, 1, 0.25, dtype=xp.float64).tolist() == [0, 0.25, 0.5, 0.75]
    assert xp.linspace(0, 1, 4, endpoint=False).tolist() == [0, 0.25, 0.5, 0.75]
    assert xp.linspace(0, 2, 3, dtype=xp.int64).tolist() == [0, 1, 2]
    assert xp.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert xp.full(2, True).dtype is xp.bool
    assert xp.full((), 3).dtype is xp.int64
    assert xp.full(2, 2**64 - 1, dtype=xp.uint64).tolist() == [2**64 - 1] * 2
    assert xp.zeros((), dtype=xp.uint16).dtype is xp.uint16
    assert xp.empty(3).shape == (3,)
    assert [x.shape for x in xp.meshgrid(xp.arange(2), xp.arange(3))] == [(3, 2), (3, 2)]
    x = xp.ones((2, 2), dtype=xp.int16)
    assert xp.zeros_like(x).dtype is xp.int16
    assert xp.full_like(x, 3, dtype=xp.float64).dtype is xp.float64
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=True) is not x
    assert_raises(ValueError, "can't alias", xp.asarray, [1.0], copy=False)
    assert_raises(RuntimeError, "CPU only", xp.ones, 2, device="cuda")


def test_errors() -> None:
    x = xp.ones((2, 3))
    for call, error in {
        "xp.expand_dims(x, axis=4)": IndexError, "xp.squeeze(x, 0)": ValueError, "xp.nonzero(xp.ones(()))": ValueError,
        "xp.max(xp.ones((0, 2)), axis=0)": ValueError, "xp.take(x, xp.asarray([0]))": ValueError,
        "xp.take(x, xp.asarray([5]), axis=0)": IndexError, "xp.matrix_transpose(xp.ones(3))": ValueError,
        "xp.broadcast_to(x, (3, 3))": ValueError, "xp.broadcast_arrays(x, xp.ones(2))": ValueError,
        "xp.reshape(x.mT, (6,), copy=False)": ValueError, "xp.linalg.outer(x, x)": ValueError,
        "xp.linalg.cross(xp.ones(2), xp.ones(2))": ValueError, "xp.vecdot(xp.ones(2), xp.ones(3))": ValueError,
        "xp.add(1, 2)": TypeError, "xp.add(x, 'a')": TypeError, "xp.sort(x + 1j)": NotImplementedError,
        "x.__array_namespace__(api_version='1999.1')": ValueError,
    }.items():  # fmt: skip
        with pytest.raises(error):
            eval(call, {"xp": xp, "x": x})


LINALG = {
    "cholesky": "P", "det": "A", "diagonal": "A", "eigvalsh": "S", "inv": "A", "matrix_norm": "A", "matrix_rank": "A",
    "pinv": "A", "svdvals": "A", "trace": "A", "vector_norm": "A",
}  # fmt: skip


@pytest.mark.parametrize("kind", FLOATS)
def test_linalg(kind: str) -> None:
    A = drawn((2, 3, 3), kind) + 9 * np.eye(3, dtype=kind)
    given = {"A": A, "S": A + A.mT, "P": A @ A.mT}
    for name, of in LINALG.items():
        agree(getattr(xp.linalg, name)(xp.asarray(given[of])), getattr(np.linalg, name)(given[of]), name, 1e-2)
    B, b = drawn((2, 3, 2), kind), drawn((3,), kind)
    agree(xp.linalg.solve(xp.asarray(A), xp.asarray(B)), np.linalg.solve(A, B), "solve", 1e-3)
    agree(xp.linalg.solve(xp.asarray(A), xp.asarray(b)), np.linalg.solve(A, b), "solve", 1e-3)
    agree(xp.linalg.solve(xp.asarray(A), xp.asarray(B[0])), np.linalg.solve(A, B[0]), "solve", 1e-3)
    agree(xp.linalg.cross(xp.asarray(A), xp.asarray(b)), np.linalg.cross(A, b), "cross", 1e-3)
    agree(xp.linalg.outer(xp.asarray(b), xp.asarray(b)), np.outer(b, b), "outer")
    agree(xp.linalg.matrix_power(xp.asarray(A), 3), np.linalg.matrix_power(A, 3), "matrix_power", 1e-2)
    agree(xp.linalg.trace(xp.asarray(A), offset=1), np.linalg.trace(A, offset=1), "trace", 1e-4)
    for ord in (1, 2, np.inf, -1, 0, 3.5):
        for axis in (None, 0, (0, 1)):
            ours = xp.linalg.vector_norm(xp.asarray(A), axis=axis, ord=ord, keepdims=True)
            agree(ours, np.linalg.vector_norm(A, axis=axis, ord=ord, keepdims=True), f"vector_norm {ord}", 1e-3)
    nothing = xp.zeros((0, 2), dtype=getattr(xp, kind))
    assert xp.linalg.vector_norm(nothing, axis=0, ord=np.inf).tolist() == [0, 0]
    assert xp.linalg.vector_norm(nothing, ord=-1).item() == np.inf
    q, r = xp.linalg.qr(xp.asarray(A))
    agree(q @ r, A, "qr", 1e-4)
    u, s, v = xp.linalg.svd(xp.asarray(A), full_matrices=False)
    agree((u * s[:, None, :]) @ v, A, "svd", 1e-4)
    values, vectors = xp.linalg.eigh(xp.asarray(given["S"]))
    agree((vectors * values[:, None, :]) @ vectors.mT, given["S"], "eigh", 1e-4)
    sign, logarithm = xp.linalg.slogdet(xp.asarray(A))
    agree(sign * xp.exp(logarithm), np.linalg.det(A), "slogdet", 1)


def test_fft() -> None:
    x, z = drawn((2, 6), "float64"), drawn((2, 6), "complex128")
    for name in ("fft", "ifft", "hfft", "irfft"):
        agree(
            getattr(xp.fft, name)(xp.asarray(z), axis=0, norm="ortho"), getattr(np.fft, name)(z, None, 0, "ortho"), name
        )
    for name in ("rfft", "ihfft"):
        agree(getattr(xp.fft, name)(xp.asarray(x), n=4), getattr(np.fft, name)(x, 4), name)
    for name in ("fftn", "ifftn", "irfftn"):
        agree(
            getattr(xp.fft, name)(xp.asarray(z), s=(2, 4), axes=(0, 1)), getattr(np.fft, name)(z, (2, 4), (0, 1)), name
        )
    agree(xp.fft.rfftn(xp.asarray(x)), np.fft.rfftn(x), "rfftn")
    agree(xp.fft.fftshift(xp.asarray(x), axes=1), np.fft.fftshift(x, 1), "fftshift")
    agree(xp.fft.ifftshift(xp.asarray(x)), np.fft.ifftshift(x), "ifftshift")
    agree(xp.fft.fftfreq(5, d=0.5, dtype=xp.float64), np.fft.fftfreq(5, 0.5), "fftfreq")
    agree(xp.fft.rfftfreq(4, dtype=xp.float64), np.fft.rfftfreq(4), "rfftfreq")


def test_inspection() -> None:
    info = xp.__array_namespace_info__()
    assert (info.default_device(), info.devices()) == (ad.device("cpu"), [ad.device("cpu")])
    assert info.default_dtypes()["real floating"] is xp.float32
    assert info.default_dtypes()["indexing"] is xp.int64
    assert set(info.dtypes()) == {"bool", *INTEGERS, *FLOATS, *COMPLEX}
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", *FLOATS}
    assert info.capabilities()["boolean indexing"] is True
    assert_raises(ValueError, "is no category", info.dtypes, kind="numbers")


def test_the_array_object() -> None:
    x = xp.ones((2, 3))
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2024.12") is xp
    assert x.to_device("cpu") is x
    assert (x.device, x.mT.shape, x.T.shape) == (ad.device("cpu"), (3, 2), (3, 2))
    assert x.ndim == 2
    assert isinstance(x.shape, tuple)
    assert x.__dlpack_device__() == (1, 0)
    assert range(5)[xp.asarray(3)] == 3
    assert complex(xp.asarray(2.0)) == 2
    assert float(xp.asarray(2)) == 2.0
    assert (+x).tolist() == x.tolist()
    with pytest.raises(AttributeError):
        x.__cuda_array_interface__


@pytest.mark.parametrize(
    "name", ["mean", "sum", "prod", "max", "std", "var", "sort", "cumulative_sum", "square", "clip"]
)
def test_gradients(name: str) -> None:
    x = ad.tensor(drawn((5,), "float64", 0.5, 3), requires_grad=True)
    settings: dict[str, Any] = {"max": 2.0} if name == "clip" else {}
    assert ad.autograd.gradcheck(lambda v: getattr(xp, name)(v, **settings), (x,))


def test_gradients_through_a_mixture_of_types() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = ad.tensor(3.0, dtype=ad.float64, requires_grad=True)
    out = xp.multiply(x, y)
    assert out.dtype is xp.float64
    xp.sum(out).backward()
    assert (x.grad.dtype, x.grad.tolist()) == (xp.float32, [3, 3])
    assert y.grad.item() == 3


@given(data())
def test_drawn_arrays_and_their_parts(source: Any) -> None:
    """What hypothesis makes through the namespace is what NumPy makes of its values, and so is what an index picks."""
    kind = source.draw(sampled_from([xp.bool, *(getattr(xp, n) for n in (*INTEGERS, *FLOATS))]))
    x = source.draw(ARRAYS.arrays(kind, ARRAYS.array_shapes(min_dims=0, min_side=0)))
    assert x.dtype is kind
    key = source.draw(ARRAYS.indices(tuple(x.shape)))
    parts = key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, slice) and part.step is not None and part.step < 0 for part in parts):
        with pytest.raises(ValueError, match="step must be greater than zero"):  # PyTorch's rule
            x[key]
        return
    part = x[key]
    np.testing.assert_array_equal(part.numpy(), x.numpy()[key])
    np.testing.assert_array_equal(xp.unique_counts(x).counts.numpy(), np.unique_counts(x.numpy()).counts)
    np.testing.assert_array_equal(xp.sort(xp.reshape(x, (-1,))).numpy() if x.numel() else [], np.sort(x.numpy(), None))


def test_signatures_are_the_standard_s() -> None:
    strict = pytest.importorskip("array_api_strict")
    strict.set_array_api_strict_flags(api_version="2024.12")
    own = {"__version__", "ArrayAPIStrictFlags", "Device", "get_array_api_strict_flags", "reset_array_api_strict_flags",
        "set_array_api_strict_flags", "isin", "broadcast_shapes", "eig", "eigvals"}  # fmt: skip
    for theirs, ours in ((strict, xp), (strict.linalg, xp.linalg), (strict.fft, xp.fft)):
        for name in {*theirs.__all__} - own:
            assert hasattr(ours, name), name
            if inspect.isfunction(getattr(theirs, name)):
                a, b = (inspect.signature(getattr(m, name)).parameters for m in (theirs, ours))
                assert [(p.name, p.kind) for p in a.values()] == [(p.name, p.kind) for p in b.values()], name
