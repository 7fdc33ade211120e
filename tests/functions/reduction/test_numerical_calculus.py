"""Differences, gradients and integrals against PyTorch: values, gradients, types, errors."""

import numpy as np
import pytest
from tests.support.oracle import same, same_error
from tests.support.samples import draw

GIVEN = {
    "x": draw("sampled", (3, 4)), "y": draw("areas", (2, 3, 4)), "v": np.array([1.0, 2.0, 4.0, 8.0, 9.0]),
    "i": np.array([1, 2, 4, 8]), "p": np.array([0.0, 1.0, 5.0]), "q": np.array([0.0, 1.0, 2.5, 3.0]),
    "r": np.array([0.0, 1.0, 3.0, 4.0, 8.0]), "b": np.array([True, False, True]), "u": np.array([1, 3, 2], np.uint8),
    "f": np.array([1.0, 2.0, 4.0], np.float32), "e": np.zeros((3, 0)), "s": np.array(2.0),
    "w": np.array([1.0, 2.0]), "k": np.array([[True, False], [True, True]]),
}  # fmt: skip


@pytest.mark.parametrize("expression", [
    "t.gradient(v)", "t.gradient(i)", "t.gradient(f)", "t.gradient(x)", "t.gradient(x, spacing=2.0)",
    "t.gradient(x, spacing=(2.0, 3.0))", "t.gradient(x, spacing=2.0, dim=1)", "t.gradient(x, dim=(-1,))",
    "t.gradient(x, spacing=(p,), dim=0)", "t.gradient(x, spacing=(p, q))", "t.gradient(x, edge_order=2)",
    "t.gradient(y, dim=(2, 1), spacing=(q, p))", "t.gradient(v, spacing=(r,), edge_order=2)",
    "t.gradient(x, spacing=t.tensor(2.0))", "t.gradient(x, dim=())", "t.gradient(x, spacing=2, edge_order=2)",
    "t.trapezoid(x)", "t.trapezoid(x, dx=2)", "t.trapezoid(x, q)", "t.trapezoid(x, p, dim=0)", "t.trapezoid(x, x)",
    "t.trapezoid(y, q)", "t.trapezoid(y, x)", "t.trapezoid(y, p, dim=1)", "t.trapezoid(i)", "t.trapezoid(e)",
    "t.trapezoid(i, t.tensor([1, 2, 4, 5]))", "t.trapezoid(x[:, :1])", "t.trapezoid(f, dx=0.5)", "t.trapz(x, q)",
    "t.trapz(x, dx=2)", "t.trapz(x, p, dim=0)", "t.cumulative_trapezoid(x)", "t.cumulative_trapezoid(i)",
    "t.cumulative_trapezoid(x, q)", "t.cumulative_trapezoid(x, dx=3, dim=0)", "t.cumulative_trapezoid(y, x)",
    "t.cumulative_trapezoid(x[:, :1])", "t.cumulative_trapezoid(e)", "t.cumulative_trapezoid(f, dx=0.5)",
    "v.diff()", "y.diff(2, 1)", "k.diff()", "v.diff(prepend=w)", "v.diff(append=w, n=1)", "w.diff(3)", "v.diff(0)",
])  # fmt: skip
def test_values_and_gradients(expression: str) -> None:
    same(expression, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.gradient(x, spacing=(2.0,), dim=(0, 1))", "spacing argument of length 1 and a dim argument of length 2."),
        ("t.gradient(x, edge_order=3)", "only supports edge_order=1 and edge_order=2."),
        ("t.gradient(v[:1])", "expected each dimension size to be at least edge_order+1"),
        ("t.gradient(v[:2], edge_order=2)", "expected each dimension size to be at least edge_order+1"),
        ("t.gradient(x, dim=(0, 0))", "dim 0 appears multiple times in the list of dims"),
        ("t.gradient(x, spacing=(1.0, 2.0, 3.0))", "but got a list of length 3"),
        ("t.gradient(x, dim=5)", "Dimension out of range (expected to be in range of [-2, 1], but got 5)"),
        ("t.gradient(u)", "torch.gradient does not support uint8 input."),
        ("t.gradient(x, spacing=(x,), dim=0)", "to have one dimension, but got an element with 2 dimensions!"),
        ("t.gradient(b)", "bool"),
        ("t.trapezoid(x, p)", "trapezoid: There must be one `x` value for each sample point"),
        ("t.trapezoid(b)", "trapezoid: received a bool input for `y`, but bool is not supported"),
        ("t.trapezoid(x, q, dx=2)", "trapezoid() received an invalid combination of arguments"),
        ("t.trapezoid(s)", "Dimension specified as -1 but tensor has no dimensions"),
        ("s.diff()", "diff expects input to be at least one-dimensional"),
        ("t.cumulative_trapezoid(x, p)", "There must be one `x` value for each sample point"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


def test_coordinates_are_as_many_as_elements() -> None:
    import adjoint as ad

    with pytest.raises(RuntimeError, match="2 coordinates for dimension 0, which has size 3"):
        ad.gradient(ad.zeros(3), spacing=(ad.zeros(2),))
