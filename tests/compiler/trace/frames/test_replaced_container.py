"""A list or dict that a step replaces is found by its place, unless its identity counts or the step changes it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")
import adjoint as ad
from adjoint import nn


def two_layers(b: Any, x: Any) -> Any:
    first = b.parts[0] * 0.5 + x
    second = b.parts[1] * 0.5 + first
    b.parts = [first, second]
    return second


def in_a_loop(b: Any, x: Any) -> Any:
    b.parts = [part * 0.5 + x for part in b.parts]
    return b.parts[-1] * 2.0


def by_unpacking(b: Any, x: Any) -> Any:
    first, second = b.parts
    b.parts = [second, first + x]
    return first * second


def of_a_dict(b: Any, x: Any) -> Any:
    b.table = {name: value * 0.5 + x for name, value in b.table.items()}
    return b.table["a"] + b.table["b"]


def with_numbers(b: Any, x: Any) -> Any:
    b.mixed = [b.mixed[0] + x, b.mixed[1], "name"]
    return b.mixed[0] * b.mixed[1]


def with_counting_numbers(b: Any, x: Any) -> Any:
    b.mixed = [b.mixed[0] + x, b.mixed[1] + 1.0, "name"]
    return b.mixed[0] * b.mixed[1]


def changed_before(b: Any, x: Any) -> Any:
    b.parts[0] = b.parts[0] + x
    b.parts = [b.parts[1], b.parts[0]]
    return b.parts[0] * 2.0


def known_twice(b: Any, x: Any) -> Any:
    same = b.parts is b.alias
    b.parts = [b.parts[0] + x, b.alias[1]]
    return b.parts[0] * (2.0 if same else 3.0)


def growing(b: Any, x: Any) -> Any:
    b.parts = [*b.parts[-3:], x * len(b.parts)]
    return b.parts[-1] + b.parts[0]


def with_parameters(b: Any, x: Any) -> Any:
    b.weights = [b.weights[0], b.weights[1]]
    return b.weights[0] * x + b.weights[1]


def partly_kept(b: Any, x: Any) -> Any:
    b.parts = [b.parts[0], b.parts[1] + x]
    return b.parts[0] * b.parts[1]


STEPS = {
    f.__name__: f
    for f in (
        two_layers, in_a_loop, by_unpacking, of_a_dict, with_numbers, with_counting_numbers, changed_before,
        known_twice, growing, with_parameters, partly_kept,
    )
}  # fmt: skip
FOUND_BY_PLACE = (two_layers, in_a_loop, by_unpacking, of_a_dict, with_numbers, partly_kept)


def state() -> Any:
    parts = [ad.ones(3), ad.full((3,), 2.0)]
    weights = [nn.Parameter(ad.ones(3)), nn.Parameter(ad.full((3,), 3.0))]
    table = {"a": ad.ones(3), "b": ad.full((3,), 2.0)}
    return SimpleNamespace(parts=parts, alias=parts, weights=weights, table=table, mixed=[ad.ones(3), 2.0, "name"])


CHANGES: dict[str, Callable[[Any], object]] = {
    "nothing": lambda b: None,
    "another list": lambda b: setattr(b, "parts", [ad.full((3,), 7.0), ad.full((3,), 8.0)]),
    "a part": lambda b: b.parts.__setitem__(0, ad.full((3,), 9.0)),
    "a part in place": lambda b: b.parts[0].mul_(2.0),
    "a longer list": lambda b: b.parts.append(ad.ones(3)),
    "a tuple": lambda b: setattr(b, "parts", tuple(b.parts)),
    "another shape": lambda b: b.parts.__setitem__(0, ad.ones(1)),
    "one tensor twice": lambda b: b.parts.__setitem__(0, b.parts[1]),
    "one memory twice": lambda b: b.parts.__setitem__(0, b.parts[1].detach()),
    "another number": lambda b: b.mixed.__setitem__(1, b.mixed[1] * 3.0),
    "another order": lambda b: setattr(b, "table", dict(reversed(b.table.items()))),
    "other parameters": lambda b: b.weights.reverse(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", STEPS)
def test_as_eagerly(name: str, change: str) -> None:
    def run(wrap: Callable[[Any], Any]) -> list[Any]:
        b = state()
        step = wrap(lambda x: STEPS[name](b, x))
        found: list[Any] = []
        with ad.no_grad():
            for n in range(10):
                if n in (4, 8):
                    CHANGES[change](b)
                try:
                    found.append(step(ad.full((3,), float(n))).clone())
                except (IndexError, TypeError, AttributeError, ValueError) as error:
                    found.append(type(error))
                found += [t.clone() for t in (*b.parts, *b.alias, *b.weights, *b.table.values(), b.mixed[0])]
                found.append([type(b.parts), [*b.table], b.mixed[1:], b.parts is b.alias])
        return found

    for a, b in zip(run(ad.compile), run(lambda f: f), strict=True):
        if isinstance(b, ad.Tensor):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
        else:
            assert a == b


@pytest.mark.parametrize("step", FOUND_BY_PLACE)
def test_one_trace_serves_all_calls(step: Callable[[Any, Any], Any]) -> None:
    b = state()
    del b.alias
    compiled = ad.compile(lambda x: step(b, x))
    for n in range(10):
        compiled(ad.full((3,), float(n)))
    assert compiled.compilations == 1
