# ruff: noqa: T201, UP031, UP032  prints and formats are what is to be tried
"""Texts of whole tensors, arrays by `np.asarray`, shuffled lists and generators with a seed: compiled as eager.

Every way to make a text of a value × every value; what is done with the text afterwards.
"""

from __future__ import annotations

import io
import random
import re
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn

pytest.importorskip("llvmlite")
CALLS = 4

W = ad.tensor([0.5, -1.0, 2.0], requires_grad=True)
P = nn.Parameter(ad.ones(2))
FROZEN = nn.Parameter(ad.ones(2), requires_grad=False)

VALUES: dict[str, Callable[[Any], Any]] = {
    "argument": lambda x: x,
    "with a gradient": lambda x: x * W,
    "view": lambda x: (x * W).view(3)[1:],
    "detached": lambda x: (x * W).detach(),
    "leaf": lambda x: W,
    "parameter": lambda x: P,
    "frozen": lambda x: FROZEN,
    "integers": lambda x: (x * 3).long(),
    "truths": lambda x: x > 2,
    "double": lambda x: x.double() + 1,
    "half": lambda x: x.half(),
    "complex": lambda x: x * 1j,
    "matrix": lambda x: x.reshape(3, 1) * x,
    "empty": lambda x: x[:0],
    "of no dimension": lambda x: x.sum(),
    "of no dimension, with a gradient": lambda x: (x * W).sum(),
    "many": lambda x: x.repeat(500),
    "list": lambda x: [x, (x * W)],
    "dict": lambda x: {"a": x * W, "b": 1},
    "number": lambda x: x.sum().item(),
}
TEXTS: dict[str, Callable[[Any], Any]] = {
    "str": str,
    "repr": repr,
    "f-string": lambda v: f"{v} and {v!r}",
    "f-string with !s": lambda v: f"<{v!s}>",
    "format": lambda v: "{} {}".format(v, 1),
    "percent": lambda v: "%s, %s" % (v, 3),
    "percent r": lambda v: "%s" % (v,),
    "join": lambda v: ", ".join([str(v), "x"]),
    "sum": lambda v: "value: " + str(v),
    "print": lambda v: print(v, "and", v, sep="|"),
    "printed f-string": lambda v: print(f"{v}"),
    "laid out": lambda v: f"{v!s:>120}",
    "laid out by format": lambda v: "{:>120}".format(str(v)),
    "laid out by percent": lambda v: "%120s" % str(v),
    "right": lambda v: str(v).rjust(120),
    "upper": lambda v: f"{v}".upper(),
    "replace": lambda v: repr(v).replace("tensor", "T"),
    "length": lambda v: len(str(v)),
    "compared": lambda v: str(v) == "tensor([1., 2., 3.])",
    "split": lambda v: str(v).split(","),
    "part": lambda v: str(v)[:9],
    "contains": lambda v: "grad_fn" in str(v),
    "encoded": lambda v: str(v).encode(),
    "hashed": lambda v: {str(v): 1},
}  # fmt: skip
LOOKS = {
    "laid out", "laid out by format", "laid out by percent", "right", "upper", "replace", "length", "compared", "split",
    "part", "contains", "encoded", "hashed",
}  # fmt: skip


def run(step: Callable[[Any], Any]) -> list[Any]:
    seen: list[Any] = []
    for k in range(CALLS):
        printed = io.StringIO()
        try:
            with redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = step(ad.tensor([1.0, 2.0, 3.0]) * (k + 1))
        except RuntimeError as error:
            found = type(error).__name__
        seen.append((found, printed.getvalue()))
    return seen


def without_bits(seen: list[Any]) -> list[Any]:
    """Numbers without their last digits, and objects without their addresses."""
    return [re.sub(r"0x[0-9a-f]+", "", re.sub(r"(\.\d{4})\d+", r"\1", str(each))) for each in seen]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("value", VALUES)
def test_texts(value: str, text: str) -> None:
    def function(x: Any) -> Any:
        return TEXTS[text](VALUES[value](x))

    eager, step = run(function), ad.compile(function)
    compiled = run(step)
    if text in LOOKS and any(found in ("TraceError", "TextReadError") for found, _ in compiled):
        assert compiled == compiled[:1] * CALLS
        return
    assert without_bits(compiled) == without_bits(eager)
    if text not in LOOKS:
        assert step.compilations == 1


ARRAYS: dict[str, Callable[[Any], Any]] = {
    "asarray": lambda x: np.asarray(x),
    "asarray of a type": lambda x: np.asarray(x, np.float64),
    "array": lambda x: np.array(x),
    "array of a type": lambda x: np.array(x, dtype=np.int64),
    "ascontiguousarray": lambda x: np.ascontiguousarray(x.t()),
    "array of numbers": lambda x: np.array([x.sum().item(), 2.0]),
    "array of tensors": lambda x: np.array([x[0, 0], x[1, 1]]),
    "array of an array": lambda x: np.array(x.numpy()),
    "of what is known": lambda x: np.asarray([1.0, 2.0]),
    "integers": lambda x: np.asarray((x * 3).long()),
    "with a gradient": lambda x: np.asarray(x * W[0]),
}
USES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda a: a * 1,
    "number": lambda a: float(a.max()),
    "tensor": lambda a: ad.from_numpy(np.sort(a, axis=0)) * 2,
    "element": lambda a: a[0],
    "shape": lambda a: a.shape,
    "loop": lambda a: [float(v) for v in a.ravel()[:2]],
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("array", ARRAYS)
def test_arrays(array: str, use: str) -> None:
    def function(x: Any) -> Any:
        return USES[use](ARRAYS[array](x.view(1, 3) * x.view(3, 1))), x * 2

    assert without_bits(run(ad.compile(function))) == without_bits(run(function))


KEPT: list[int] = []


def shuffle_in_turn(x: Any) -> Any:
    numbers = [1.0, 2.0, x.sum().item()]
    random.shuffle(numbers)
    return x * numbers[0] + numbers[1], numbers


def shuffle_places(x: Any) -> Any:
    places = [0, 1, 2]
    random.shuffle(places)
    return x[places[0]], places, random.random()


def shuffle_kept(x: Any) -> Any:
    random.shuffle(KEPT)
    return x * KEPT[0], list(KEPT)


def sample(x: Any) -> Any:
    return x * random.sample(range(5), 3)[1], random.choice([1, 2, 3]), random.choices([1, 2], k=2)


def seeded_numpy(x: Any) -> Any:
    generator = np.random.default_rng(0)
    noise = ad.from_numpy(generator.normal(size=3).astype(np.float32))
    return x * float(generator.normal()) + noise, generator.permutation(3).tolist()


def seeded_random(x: Any) -> Any:
    generator = random.Random(7)
    return x * generator.random(), generator.random()


def seeded_old(x: Any) -> Any:
    return x * float(np.random.RandomState(3).rand()), random.random()


DRAWS = (shuffle_in_turn, shuffle_places, shuffle_kept, sample, seeded_numpy, seeded_random, seeded_old)


@pytest.mark.parametrize("function", DRAWS, ids=lambda f: f.__name__)
def test_draws(function: Callable[[Any], Any]) -> None:
    def sixteen_calls(step: Callable[[Any], Any]) -> list[Any]:
        random.seed(0)
        KEPT[:] = [1, 2, 3, 4]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [str(step(ad.tensor([1.0, 2.0, 3.0]) * k)) + str(KEPT) for k in range(16)]
        return [*without_bits(found), random.random()]

    assert sixteen_calls(ad.compile(function)) == sixteen_calls(function)


def test_a_generator_without_a_seed_is_refused() -> None:
    step = ad.compile(lambda x: x * float(np.random.default_rng().normal()))
    with pytest.raises(RuntimeError, match="draws random numbers outside of adjoint"):
        step(ad.ones(2))


GENERATOR = np.random.PCG64(1)
UNSEEDED = (
    lambda: np.random.RandomState().rand(), lambda: np.random.Generator(np.random.PCG64()).normal(),
    lambda: random.Random().random(), lambda: np.random.Generator(GENERATOR).normal(),
    lambda: np.random.default_rng(None).normal(), lambda: random.Random(None).random(),
)  # fmt: skip


@pytest.mark.parametrize("draw", UNSEEDED)
def test_what_draws_other_numbers_in_each_call_is_refused(draw: Callable[[], float]) -> None:
    step = ad.compile(lambda x: x * draw())
    with pytest.raises(RuntimeError, match=r"outside of adjoint|may advance"):
        step(ad.ones(2))
