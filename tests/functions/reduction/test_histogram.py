"""Counts of integers and in bins, against PyTorch: values, types, errors."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error
from tests.support.samples import draw

import adjoint as ad

GIVEN = {
    "x": draw("observed", (3, 5)), "v": np.array([1.0, 2.0, 4.0]), "i": np.array([1, 2, 4]),
    "w": np.array([0.1, 0.2, 0.3, 0.4, 0.5]), "f": np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], np.float32),
    "d": draw("points", (7, 2)), "deep": draw("deep", (3, 2, 2)), "nan": np.array([2.0, np.nan]),
    "one": np.array([2.0, 2.0]), "e": np.array([-1.0, 0.0, 0.3, 2.0]), "big": draw("many", (4, 50), -5, 5),
    "c": np.array([3, 1, 1, 2, 3, 0]), "m": np.array([[1, 2], [1, 2], [0, 5], [1, 2]]),
    "y": np.cos(np.arange(24.0)).reshape(2, 3, 4), "z": np.array([3.0, 1.0, 2.0, 1.0, 3.0, 3.0]),
    "a": np.array([[1.0, np.nan, 3.0, 2.0], [4.0, 4.0, 1.0, 0.0], [np.nan] * 4]),
}  # fmt: skip


@pytest.mark.parametrize("expression", [
    "t.histogram(f.detach(), 3)", "d.detach().histogram(4)", "t.histogram(d.detach(), e.detach())",
    "t.histogram(f.detach(), 3, range=(1, 4))", "t.histogram(f.detach(), 3, weight=f.detach())",
    "t.histogram(f.detach(), 5, density=True)", "t.histogram(f.detach(), density=True)",
    "t.histogram(f.detach()[:0], 3)", "t.histogram(one.detach(), 3)", "t.histogram(nan.detach(), 3, range=(0, 3))",
    "t.histogram(big.detach(), 13)", "t.histogram(big.detach().float(), 17, density=True)",
    "t.histogramdd(d.detach(), [2, 3])", "t.histogramdd(d.detach(), 2)",
    "t.histogramdd(d.detach(), [e.detach(), e.detach() + 0.1])",
    "t.histogramdd(d.detach(), [2, 2], range=(0.0, 1.0, -0.5, 0.5))",
    "t.histogramdd(d.detach(), [2, 2], weight=t.arange(7.0, dtype=t.float64), density=True)",
    "t.histogramdd(deep.detach(), [1, 2])", "t.histogramdd(x.detach().T, [2, 1, 3])", "c.bincount()",
    "t.bincount(c, z.detach())", "t.bincount(c, minlength=7)", "t.bincount(c[:0])", "y.histc(5)", "t.histc(z, 4, 0, 2)",
])  # fmt: skip
def test_values_and_gradients(expression: str) -> None:
    same(expression, **GIVEN)


@pytest.mark.parametrize(("expression", "head"), [
    ("i.histogram(3)", '"histogramdd" not implemented for'),
    ("v.histogram(0)", "torch.histogram(): bins must be > 0, but got 0 for dimension 0"),
    ("v.histogram(3, range=(4, 1))", "min should not exceed max, but got min 4 max 1 for dimension 0"),
    ("nan.histogram(3)", "torch.histogramdd: dimension 0's range [nan, nan] is not finite"),
    ("v.histogram(3, weight=w)", "but got input with shape [3, 1] and weight with shape [5]"),
    ("v.histogram(f)", "input tensor and bins tensors should have the same dtype"),
    ("v.histogram(d)", "bins tensor should have one dimension, but got 2 dimensions in the bins tensor"),
    ("v.histogram(3, range=(1,))", "for a 1-dimensional histogram range should have 2 elements, but got 1"),
    ("t.histogramdd(d, [2])", "The size of bins must be equal to the innermost dimension of the input."),
    ("t.histogramdd(v, [2])", "torch.histogramdd: input tensor should have at least 2 dimensions"),
    ("t.histogramdd(d, 2, range=(0.0, 4.0))", "histogram range should have 4 elements, but got 2"),
    ("t.histogramdd(d, 2, weight=w)", "input with shape [7, 2] and weight with shape [5]"),
    ("m.bincount()", "bincount only supports 1-d non-negative integral inputs."),
    ("(-c).bincount()", "bincount only supports 1-d non-negative integral inputs."),
    ("t.histc(z, 4, 3, 1)", "max must be larger than min"),
    ("t.histc(z, 0)", "bins must be > 0, but got 0"),
    ("t.histc(a, 4)", "is not finite"),
    ("t.histc(z / 0, 4)", "is not finite"),
    ("c.bincount(minlength=-1)", "minlength should be >= 0"),
    ("c.bincount(z[:2])", "weights should be 1-d and have the same length as input"),
])  # fmt: skip
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


def test_results_are_named_and_written_where_wanted() -> None:
    x: Any = ad.arange(6.0)
    out = ad.empty(3), ad.empty(4)
    found: Any = ad.histogram(x, 3, out=out)  # type: ignore[call-arg]
    assert found.hist is out[0]
    assert found.bin_edges.tolist() == pytest.approx([0, 5 / 3, 10 / 3, 5])
    assert out[0].tolist() == [2, 2, 2]


def test_every_element_within_the_range_is_counted_once() -> None:
    x = np.linspace(-3, 3, 1001, dtype=np.float32)
    hist, edges = ad.histogram(ad.tensor(x), 7)
    assert hist.sum().item() == 1001
    bounds = edges.numpy()
    assert hist.tolist() == [((x >= a) & ((x < b) | (b == x[-1]))).sum() for a, b in pairwise(bounds)]
