"""Functions of truths, of small integers and of the wrong kind of number: PyTorch's types, values and errors."""

import re
from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same

import adjoint as ad

GIVEN: dict[str, Any] = {
    "b": np.array([True, False]), "u": np.array([0, 1, 5, 255], np.uint8), "i": np.array([1, -3, 100], np.int8),
    "f": np.array([1.5, -2.0]), "e": np.zeros(0), "w": np.array([4, 6]),
}  # fmt: skip
EXPRESSIONS = [
    "b.square()", "b.round()", "b.relu()", "b ** b", "b ** 2", "2 ** b", "b.sign()", "t.sgn(b)", "b.floor()",
    "b.ceil()", "b.trunc()", "b.abs()", "b // b", "b // 2", "b % b", "b % 2", "t.fmod(b, b)", "t.fmod(b, 2)", "-b",
    "b - b", "b.frac()", "w.frac()", "t.add(b, -2.0, alpha=2)", "t.add(b, -2, alpha=2)", "t.add(b, b, alpha=2)",
    "t.add(b, True, alpha=2)",
    "t.add(b, False, alpha=2)", "t.add(b, 2, alpha=2.5)", "t.add(w, w, alpha=2.5)", "t.add(w, 2.5, alpha=2)",
    "t.add(f, w, alpha=2.5)", "t.sub(f, w, alpha=3)", "t.add(u, u, alpha=2)", "t.nn.functional.layer_norm(b, (2,))",
    "t.nn.functional.layer_norm(u, (4,))", "t.nn.functional.batch_norm(b[None], f, f)", "u.clamp(-1, 1)",
    "u.clamp(min=-1)", "u.clamp(max=-5)", "u.clamp(max=300)", "u.clamp(0, 2.5)", "i.clamp(-300, 300)", "i.clamp(-5, 5)",
    "u.clone().clamp_(-1, 1)", "t.where(u > 0, u, -1)", "t.where(u > 0, u, 300)", "u.masked_fill(u > 0, -1)",
    "u.masked_fill(u > 0, 300)", "t.full((2,), 300, dtype=t.uint8)", "t.full((2,), -1, dtype=t.uint8)", "t.gcd(f, f)",
    "t.lcm(f, f)", "t.gcd(f, w)", "t.gcd(e, e)", "t.gcd(b, b)", "t.lcm(b, b)", "e & e", "f | f", "f ^ 1",
    "~e", "~f", "t.bitwise_not(f)", "w & 1.5", "w & 5", "b | w", "b.clone().square_()",
    "t.isclose(b, ~b)", "t.quantile(f, t.sigmoid(f))",
]  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_in_pytorch(expression: str) -> None:
    import adjoint.nn.functional  # noqa: F401  makes it an attribute of what `t` stands for

    same(expression, **{name: x for name, x in GIVEN.items() if re.search(rf"\b{name}\b", expression)})


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_in_a_compiled_step(expression: str) -> None:
    pytest.importorskip("llvmlite")
    names = [name for name in GIVEN if re.search(rf"\b{name}\b", expression)]
    given = [ad.from_numpy(GIVEN[name].copy()) for name in names]

    def step(*tensors: Any) -> Any:
        return eval(expression, {"t": ad, **dict(zip(names, tensors, strict=True))})

    try:
        expected = step(*given)
    except (RuntimeError, TypeError) as error:
        with pytest.raises(type(error), match=re.escape(str(error).partition(":")[0])):
            ad.compile(step)(*given)
        return
    got = ad.compile(step)(*given)
    assert got.dtype is expected.dtype
    np.testing.assert_array_equal(got.numpy(), expected.numpy())


@pytest.mark.parametrize("expression", ["t.gcd(f, f)", "t.lcm(e, e)", "e & e", "b.round()", "b ** b"])
def test_the_error_says_what_to_do(expression: str) -> None:
    with pytest.raises(NotImplementedError, match=r"is not implemented for tensors of type .*: convert with .*\(\)"):
        eval(expression, {"t": ad, **{name: ad.from_numpy(x) for name, x in GIVEN.items()}})
