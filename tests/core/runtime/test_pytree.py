"""Trees of leaves: one value spread over a tree, leaves mapped, and how a structure prints."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import pytest

from adjoint.core.runtime.pytree import broadcast_prefix, flatten, tree_map

Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "over", "found"),
    [
        (0, (1, [2, 3], {"k": 4}), [0, 0, 0, 0]),
        ((0, None, {"k": 1}), (1, [2, 3], {"k": 4}), [0, None, None, 1]),
        ((0, [5, 6], 7), (1, [2, 3], {"k": (4, 4)}), [0, 5, 6, 7, 7]),
        (0, 1, [0]),
        (Pair(0, 1), Pair(2, (3, 4)), [0, 1, 1]),
        ((0,), (), None),
        ((0, 1), [2, 3], None),
        ((0, 1), (2,), None),
        ({"a": 0}, {"b": 1}, None),
        ((0,), 1, None),
    ],
)
def test_spread(value: Any, over: Any, found: Any) -> None:
    assert broadcast_prefix(value, flatten(over)[1]) == found


def test_mapped() -> None:
    tree = OrderedDict(x=[1, (2,)], y=Pair(3, None))
    assert tree_map(lambda leaf: leaf and leaf * 10, tree) == OrderedDict(x=[10, (20,)], y=Pair(30, None))


def test_a_structure_prints_as_its_containers_do() -> None:
    tree = (1, [2], {"k": (3,)}, Pair(4, 5), ())
    assert repr(flatten(tree)[1]) == "(*, [*], {'k': (*,)}, Pair(*, *), ())"
    assert repr(flatten(1)[1]) == "*"
