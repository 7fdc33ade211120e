"""Reductions over segments against PyTorch: values, gradients, errors; and that the gradient is that of the values."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error
from tests.support.samples import draw

import adjoint as ad

GIVEN = {
    "d": draw("segments", (6, 2)), "v": np.array([1.0, 3.0, 3.0, 2.0, 0.0, 5.0]), "l": np.array([2, 0, 3, 1]),
    "o": np.array([0, 2, 2, 5, 6]), "short": np.array([2, 3]), "rows": np.array([[1, 1]] * 6),
    "f": np.array([1.0, np.nan, 2.0], np.float32), "ints": np.arange(6),
}  # fmt: skip
HOW = ["sum", "mean", "max", "min", "prod", "amax", "amin"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("call", [
    "d, '{}', lengths=l", "d, '{}', lengths=l, initial=0.25", "v, '{}', lengths=l", "d, '{}', offsets=o",
    "v, '{}', lengths=l.to(t.int32), initial=3.0", "d, '{}', lengths=rows, axis=1", "f, '{}', lengths=short[:1] + 1",
    "d, '{}', lengths=short, unsafe=True", "d, '{}', offsets=o[:4]",
])  # fmt: skip
def test_values_and_gradients(how: str, call: str) -> None:
    if how == "prod" and call.startswith("f,"):
        call = call.replace("f,", "f[2:].repeat(3),")  # beside a NaN PyTorch has a finite gradient
    same(f"t.segment_reduce({call.format(how)})", **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("d, 'sum', lengths=short", "Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1)"),
        ("d, 'sum', lengths=short * -1 + 5", "Expected all rows of lengths along axis to sum to data.size"),
        ("d, 'sum', lengths=l - 1", "lengths contains negative value!"),
        ("d, 'sum'", "segment_reduce(): Either lengths or offsets must be defined."),
        ("d, 'middle', lengths=l", "reduce argument must be either sum, prod, mean, amax or amin, got middle"),
        (
            "d, 'sum', lengths=l, axis=1",
            "segment_reduce(): Expected axis to be the last dimension of lengths but got 1.",
        ),
        ("d, 'sum', indices=l", "segment_reduce(): indices based reduction is not supported yet."),
        ("ints, 'sum', lengths=l", " not implemented for "),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(f"t.segment_reduce({expression})", head, **GIVEN)


@pytest.mark.parametrize("how", HOW[:5])
def test_second_gradient(how: str) -> None:
    """PyTorch has none."""
    x: Any = ad.tensor(GIVEN["d"], requires_grad=True)
    lengths = ad.tensor([2, 3, 1])
    assert ad.autograd.gradgradcheck(lambda x: ad.segment_reduce(x, how, lengths=lengths) ** 2, x)
