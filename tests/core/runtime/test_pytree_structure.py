"""Containers of arguments and results, taken apart and put together again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from adjoint.core.runtime.pytree import LEAF, flatten, unflatten

LEAVES = st.one_of(st.integers(), st.text(max_size=2), st.none())
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
    ),
    max_leaves=12,
)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Batch:
    x: Any
    y: Any = 0


def count(tree: Any) -> int:
    """Leaves, counted another way."""
    if isinstance(tree, dict):
        return sum(map(count, tree.values()))
    return sum(map(count, tree)) if isinstance(tree, (list, tuple)) else 1


@given(TREES)
def test_what_was_taken_apart_is_put_together(tree: Any) -> None:
    leaves, structure = flatten(tree)
    assert len(leaves) == count(tree)
    again = unflatten(structure, iter(leaves))
    assert again == tree
    assert type(again) is type(tree)


@given(TREES, TREES)
def test_structures_are_equal_and_hash_alike_just_where_containers_match(a: Any, b: Any) -> None:
    (leaves, first), (others, second) = flatten(a), flatten(b)
    if first == second:
        assert hash(first) == hash(second)
        assert unflatten(second, iter(leaves)) == a
        assert len(leaves) == len(others)
    else:
        assert a != b


def test_kinds_of_containers_are_kept() -> None:
    trees = (Pair(1, [2]), Batch(1, (2, 3)), OrderedDict(b=1, a=2), {"b": 1, "a": 2}, [], (), {}, (Batch(Pair(1, 2)),))
    for tree in trees:
        leaves, structure = flatten(tree)
        again = unflatten(structure, iter(leaves))
        assert again == tree
        assert type(again) is type(tree)


def test_leaves_come_from_left_to_right_in_the_order_of_the_container() -> None:
    leaves, _ = flatten({"b": [1, (2,)], "a": Pair(3, Batch(4, 5))})
    assert leaves == [1, 2, 3, 4, 5]
    assert flatten({"a": 1, "b": 2})[1] != flatten({"b": 2, "a": 1})[1], "the keys' order decides which leaf is which"


def test_a_lone_value_is_a_leaf() -> None:
    for value in (3, None, "text", Batch, {1, 2}):
        leaves, structure = flatten(value)
        assert leaves == [value]
        assert structure == LEAF
        assert unflatten(structure, iter(leaves)) is value


def test_length_and_names_tell_structures_apart() -> None:
    trees = ([1], [1, 2], (1,), Pair(1, 2), (1, 2), {"x": 1, "y": 2}, Batch(1, 2), {"x": 1})
    structures = [flatten(t)[1] for t in trees]
    assert len(set(structures)) == len(structures)
