"""Numbers as functions of sizes, found from a few examples."""

import math

import pytest

from adjoint.interop.onnx.size_relations import find_float_relation, find_relation, multiply

BATCH, LENGTH, HEIGHT = (2, 4, 6, 10), (9, 12, 21, 15), (16, 80, 112, 48)
KNOWN = [BATCH, LENGTH, HEIGHT]


def evaluate(relation, sizes):
    product = math.prod(sizes[KNOWN.index(d)] for d in relation.dimensions)
    minus = 0 if relation.minus is None else sizes[KNOWN.index(relation.minus)]
    return (relation.numerator * (product - minus) + relation.offset) // relation.denominator


@pytest.mark.parametrize(
    "function",
    [
        lambda b, t, h: t,
        lambda b, t, h: 3 * t - 2,
        lambda b, t, h: b * t,
        lambda b, t, h: 5 * b * t * h + 1,
        lambda b, t, h: h // 16,
        lambda b, t, h: t // 2,
        lambda b, t, h: (t + 1) // 2,
        lambda b, t, h: (t - 2) // 5,
        lambda b, t, h: h - t,
        lambda b, t, h: b * h // 8,
    ],
)
def test_relation_holds_at_other_sizes(function):
    found = find_relation(tuple(map(function, *KNOWN)), KNOWN)
    assert found is not None
    assert evaluate(found, (8, 40, 64)) == function(8, 40, 64)


def test_what_follows_no_law_is_not_found():
    assert find_relation((3, 1, 4, 1), KNOWN) is None
    assert find_float_relation((0.3, 0.1, 0.4, 0.15), KNOWN) is None


@pytest.mark.parametrize(
    "function", [lambda t: 0.5 * t, lambda t: 1 / t, lambda t: math.sqrt(t), lambda t: t**-0.5, lambda t: 1.5 / (t + 2)]
)
def test_float_relation_holds_at_other_sizes(function):
    found = find_float_relation(tuple(map(function, LENGTH)), [LENGTH])
    assert found is not None
    value = found.scale * 33 + found.offset
    for root in reversed(found.root.split()):
        value = 1 / value if root == "Reciprocal" else math.sqrt(value)
    assert value == pytest.approx(function(33))


def test_products_are_of_each_trace():
    assert multiply((BATCH, LENGTH)) == (18, 48, 126, 150)
