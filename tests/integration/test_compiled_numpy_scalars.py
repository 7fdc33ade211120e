"""NumPy's scalars in steps: beside tensors they are Python numbers; by themselves they stay what NumPy makes them.

Every operation × every type of tensor × every scalar, eager and compiled; and the scalars that NumPy computes in each
call, with their types, texts and arithmetic.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

pytest.importorskip("llvmlite")

DTYPES = ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
SCALARS: list[Any] = [
    np.float64(1.5), np.float32(1.5), np.float16(1.5), np.int64(2), np.int32(2), np.int8(2), np.uint8(2), np.uint64(3),
    np.bool_(True), np.complex64(1 + 1j), np.complex128(1j), np.float64(0.1), np.float32(np.inf), np.float64(np.nan),
]  # fmt: skip
ARRAYS: list[Any] = [np.array(1.5), np.array(2), np.array(True), np.array(1.5, np.float32), np.array(3, np.int8)]
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")},
    **{name: getattr(operator, name) for name in ("gt", "eq", "and_", "lshift")},
    "radd": lambda x, s: s + x,
    "rsub": lambda x, s: s - x,
    "rtruediv": lambda x, s: s / x,
    "rpow": lambda x, s: s**x,
    "rgt": lambda x, s: s > x,
    "ror": lambda x, s: s | x,
    "where": lambda x, s: ad.where(x.real > 0, x, s),
    "where of the scalar": lambda x, s: ad.where(x.real > 1, s, x),
    "clamp": lambda x, s: ad.clamp(x, min=s),
    "iadd": lambda x, s: x.clone().add_(s),
    "imul": lambda x, s: operator.imul(x.clone(), s),
    "add with alpha": lambda x, s: ad.add(x, s, alpha=2),
    "masked_fill": lambda x, s: x.masked_fill(x.real > 1, s),
    "lerp": lambda x, s: ad.lerp(x, x + 1, s),
    "copysign": lambda x, s: ad.copysign(x, s),
    "fill": lambda x, s: ad.full_like(x, s),
}


def run(f: Callable[[Any, Any], Any], x: Any, s: Any) -> Any:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = f(x, s)
    except (RuntimeError, TypeError, ValueError, ArithmeticError) as error:
        return type(error).__name__
    return found.dtype, found.tolist()


def is_same(a: Any, b: Any, rtol: float = 1e-6) -> bool:
    if isinstance(a, str) or isinstance(b, str) or a[0] is not b[0]:
        return bool(a == b)
    return bool(np.allclose(np.array(a[1], complex), np.array(b[1], complex), rtol=rtol, equal_nan=True))


@pytest.mark.sweep(8)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_scalars_beside_tensors(operation: str, dtype: str) -> None:
    x = ad.tensor([1, 2]).to(getattr(ad, dtype))
    for s in SCALARS + ARRAYS:
        eager = run(OPERATIONS[operation], x, s)
        if isinstance(s, np.generic) and (s.dtype.kind != "c" or operation not in ("fill", "masked_fill")):
            plain = run(OPERATIONS[operation], x, s.item())
            assert is_same(eager, plain), (repr(s), eager, plain)
        step = ad.compile(lambda x, s=s: OPERATIONS[operation](x, s))
        compiled = run(lambda x, _, step=step: step(x), x, s)
        assert is_same(compiled, eager, 3e-2 if "16" in dtype else 1e-6), (repr(s), compiled, eager)


MADE: dict[str, Callable[[Any], Any]] = {
    "float32": lambda a: a.max(),
    "float64": lambda a: a.astype(np.float64).mean(),
    "float16": lambda a: a.astype(np.float16).sum(),
    "an index": lambda a: a.argmax(),
    "int32": lambda a: a.astype(np.int32).sum(dtype=np.int32),
    "truth": lambda a: (a > 1).any(),
    "norm": lambda a: np.linalg.norm(a),
    "element": lambda a: a[1],
}
FORMS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda v: v,
    "text": str,
    "repr": repr,
    "f-string": lambda v: f"{v} {v!r} {v:.3f}",
    "float": float,
    "int": lambda v: int(v),
    "item": lambda v: v.item(),
    "dtype": lambda v: (v.dtype, v.shape, v.ndim),
    "times a number": lambda v: v * 2,
    "a number times it": lambda v: 2.5 * v,
    "times itself": lambda v: v * v,
    "with a scalar": lambda v: v + np.float32(0.1),
    "a scalar with it": lambda v: np.float64(0.1) - v,
    "over nought": lambda v: v / 0.0 if not isinstance(v, bool) else v,
    "square root": lambda v: np.sqrt(v),
    "maximum": lambda v: np.maximum(v, np.float32(0.25)),
    "rounded": lambda v: np.round(v * 1.26, 1),
    "negated": lambda v: -(v * 1),
    "compared": lambda v: bool(v > 1),
    "with an array": lambda v: (v * np.array([1.0, 2.0])).tolist(),
    "in a list": lambda v: [v, (v, 1)],
    "a tensor": lambda v: ad.tensor(v),
    "a tensor of several": lambda v: ad.tensor([v, v]),
}


@pytest.mark.sweep(4)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("made", MADE)
def test_scalars_that_numpy_computes(made: str, form: str) -> None:
    def function(x: Any) -> Any:
        return FORMS[form](MADE[made](x.numpy()))

    def values(step: Any) -> list[Any]:
        seen = []
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for k in range(3):
                found = step(ad.tensor([0.1, 2.3, 0.7]) * (k + 0.3))
                seen.append((type(found), repr(found)))
        return seen

    assert values(ad.compile(function)) == values(function)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("made", MADE)
def test_tensors_with_scalars_that_numpy_computes(made: str, dtype: str) -> None:
    for name in ("add", "rsub", "mul", "pow", "gt", "where"):

        def function(x: Any, name: str = name) -> Any:
            return OPERATIONS[name](ad.tensor([1, 2]).to(getattr(ad, dtype)), MADE[made](x.numpy()))

        step = ad.compile(function)
        for k in range(2):
            x = ad.tensor([0.1, 2.3, 0.7]) * (k + 0.3)
            eager, compiled = run(lambda x, _: function(x), x, None), run(lambda x, _: step(x), x, None)  # noqa: B023
            assert is_same(compiled, eager, 1e-2 if "16" in dtype else 1e-6), (name, compiled, eager)
