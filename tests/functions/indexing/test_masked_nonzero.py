"""Positions of elements, against PyTorch: values and errors."""

import numpy as np
import pytest
from tests.support.oracle import same, same_error

GIVEN = {
    "i": np.array([7, -1, 12, 0]), "m": np.array([[1.0, 0.0], [0.0, 3.0]]), "s": np.array(3.0),
    "b": np.array([[True, False, True]]),
}  # fmt: skip


@pytest.mark.parametrize("expression", [
    "t.unravel_index(i, (3, 4))", "t.unravel_index(t.tensor(7), (3, 4))", "t.unravel_index(i, 12)",
    "t.unravel_index(i, t.Size([2, 3]))", "t.unravel_index(i[3:], ())", "t.unravel_index(i.to(t.int32), (3, 4))",
    "t.nonzero_static(m, size=1)", "m.nonzero_static(size=3, fill_value=7)", "t.nonzero_static(s, size=2)",
    "t.nonzero_static(i, size=0)", "b.nonzero_static(size=4)", "t.argwhere(i)", "t.argwhere(m)",
])  # fmt: skip
def test_values(expression: str) -> None:
    same(expression, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.unravel_index(m, (3, 4))", "expected 'indices' to be integer dtype, but got"),
        ("t.unravel_index(i, (3, -4))", "'shape' cannot have negative values, but got (3, -4)"),
        ("t.unravel_index(i, (3.0, 4))", "expected 'shape' sequence to only contain ints, but got <class 'float'>"),
        ("t.unravel_index(i, i)", "expected 'shape' to be int or sequence of ints, but got"),
        ("i.nonzero_static(size=-2)", "nonzero_static: 'size' must be an non-negative integer"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)
