"""Arguments in containers: a compiled step takes them out by code for one structure, and leaves others to the trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

pytest.importorskip("llvmlite")

import adjoint as ad
from adjoint.compiler.program.tree_codegen import write_rebuilder, write_unpacker
from adjoint.core.runtime import pytree


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Record:
    first: Any
    name: str
    others: list[Any]


A, B, C = ad.ones(2), ad.zeros(2), ad.ones(3)
TREES: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "lists": ((A, [[B], []], (C,)), {}),
    "dict": (({"a": A, "b": {"c": B}}, None), {"c": C, "flag": True}),
    "named": ((Pair(A, Pair(B, 3)),), {}),
    "record": ((Record(A, "x", [B, (C, 0.5)]),), {}),
    "empty": (([], {}, ()), {"a": A}),
}


@pytest.mark.parametrize("name", TREES)
def test_leaves_of_the_structure_are_unpacked_and_put_back(name: str) -> None:
    args, kwargs = TREES[name]
    leaves, structure = pytree.flatten((args, kwargs))
    kinds = [float if type(x) is float else type(x) for x in leaves]
    unpack = write_unpacker(args, kwargs, [None if kind is int else kind for kind in kinds])
    assert unpack is not None
    given = unpack(args, kwargs)
    assert given is not None
    assert list(map(id, given)) == [
        id(x) for x in leaves if type(x) is not int and not isinstance(x, str | bool | None)
    ]
    rebuilt = write_rebuilder(structure)(tuple(leaves))
    again, same = pytree.flatten(rebuilt)
    assert same == structure
    assert list(map(id, again)) == list(map(id, leaves))


OTHERS: list[tuple[Any, ...]] = [
    (A, [B, C], "mean", 2),
    (A, (B,), "mean", 2),
    (A, [B], "sum", 2),
    (A, [B], "mean", 3),
    (A, [B], "mean", True),
    (A, [B], "mean"),
    (A, B, "mean", 2),
]


@pytest.mark.parametrize("others", OTHERS)
def test_other_trees_and_constants_are_refused(others: tuple[Any, ...]) -> None:
    unpack = write_unpacker((A, [B], "mean", 2), {}, [None] * 4)
    assert unpack is not None
    assert unpack((B, [A], "mean", 2), {}) == (B, A)
    assert unpack(others, {}) is None
    assert unpack((A, [B], "mean", 2), {"more": 1}) is None


def test_a_step_tells_structures_and_constants_apart_from_call_to_call() -> None:
    @ad.compile
    def step(x: Any, pair: Any, how: str = "add") -> Any:
        a, b = pair.values() if isinstance(pair, dict) else pair
        y = a + 2 * b if how == "add" else a * b
        return {"sum": x + y, "pair": Pair(y, [x * 2])}

    x, a, b = ad.randn(3), ad.randn(3), ad.randn(3)
    for _ in range(3):
        for pair, how in (([a, b], "add"), ((a, b), "add"), ([b, a], "mul"), ({"a": b, "b": a}, "add")):
            found = step(x, pair, how=how)
            p, q = pair.values() if isinstance(pair, dict) else pair
            y = p + 2 * q if how == "add" else p * q
            assert ad.equal(found["sum"], x + y)
            assert type(found["pair"]) is Pair
            assert ad.equal(found["pair"].second[0], x * 2)
    assert step.compilations == 4
