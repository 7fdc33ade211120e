"""Numbers in a row and positions against PyTorch: values, types, errors, warnings."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint as ad

GIVEN = {
    "i": np.array([7, -1, 12, 0]),
    "m": np.array([[1.0, 0.0], [0.0, 3.0]]),
    "s": np.array(3.0),
    "b": np.array([[True, False, True]]),
}


@pytest.mark.parametrize(
    "expression",
    [
        "t.logspace(0, 2, 3)", "t.logspace(0, 2, 3, base=2, dtype=t.int64)", "t.logspace(0, 2, 0)",
        "t.logspace(1, 2, 1)", "t.logspace(-1, 1.5, 7, 3.0, dtype=t.float64)", "t.logspace(2, 0, 4)",
        "t.logspace(0, 2, 3, 2, dtype=t.complex64)", "t.logspace(t.tensor(0.0), t.tensor(2.0), 4)",
        "t.logspace(0, 2, 3, out=t.empty(3, dtype=t.float64))", "t.logspace(0, 2, 3, requires_grad=True)",
        "t.scalar_tensor(3)", "t.scalar_tensor(3, dtype=t.int64)", "t.scalar_tensor(True)",
        "t.scalar_tensor(2.5, requires_grad=True)", "t.scalar_tensor(1j, dtype=t.complex64)", "t.range(0, 5)",
        "t.range(1, 2, 0.25)", "t.range(3, 1, -1)", "t.range(0, 3, dtype=t.int64)", "t.range(0, 0.9999)",
        "t.range(0, 3, out=t.empty(4, dtype=t.int64))",
        "t.unravel_index(i, (3, 4))", "t.unravel_index(t.tensor(7), (3, 4))", "t.unravel_index(i, 12)",
        "t.unravel_index(i, t.Size([2, 3]))", "t.unravel_index(i[3:], ())", "t.unravel_index(i.to(t.int32), (3, 4))",
        "t.nonzero_static(m, size=1)", "m.nonzero_static(size=3, fill_value=7)", "t.nonzero_static(s, size=2)",
        "t.nonzero_static(i, size=0)", "b.nonzero_static(size=4)",
    ],
)  # fmt: skip
def test_values(expression: str) -> None:
    same(expression, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.logspace(0, 2, -1)", "number of steps must be non-negative"),
        ("t.scalar_tensor(1j)", "value cannot be converted to type float without overflow"),
        ("t.range(5)", 'range() missing 1 required positional arguments: "end"'),
        ("t.range(3, 1)", "upper bound and lower bound inconsistent with step sign"),
        ("t.range(1, 3, 0)", "step must be nonzero"),
        ("t.unravel_index(m, (3, 4))", "expected 'indices' to be integer dtype, but got"),
        ("t.unravel_index(i, (3, -4))", "'shape' cannot have negative values, but got (3, -4)"),
        ("t.unravel_index(i, (3.0, 4))", "expected 'shape' sequence to only contain ints, but got <class 'float'>"),
        ("t.unravel_index(i, i)", "expected 'shape' to be int or sequence of ints, but got"),
        ("i.nonzero_static(size=-2)", "nonzero_static: 'size' must be an non-negative integer"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


def test_range_is_deprecated() -> None:
    with pytest.warns(UserWarning, match=r"torch\.range is deprecated"):
        ad.range(0, 1)


def test_names_of_types() -> None:
    assert ad.typename(ad.zeros(1)) == "adjoint.FloatTensor"
    assert ad.typename(ad.nn.Linear(1, 1)) == ad.typename(ad.nn.Linear) == "adjoint.nn.layers.linear.Linear"
    assert ad.typename(1) == "int"
