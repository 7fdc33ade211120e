"""Rectifiers and dropout under their top-level names against PyTorch, drawn and written in place."""

import numpy as np
import pytest
from tests.support.oracle import same, same_error

GIVEN = {
    "x": np.array([[-2.5, -1.0, 0.3], [0.4, -0.2, 3.7]]), "f": np.array([-1.0, 2.0, -0.5, 0.0], np.float32),
    "w": np.array([0.1, 0.2, 0.3]), "deep": np.linspace(-1, 1, 24).reshape(2, 3, 4),
}  # fmt: skip


@pytest.mark.parametrize("expression", [
    "t.celu(x)", "t.celu(x, 0.5)", "t.hardshrink(x)", "x.hardshrink(1.0)", "t.prelu(x, w)", "x.prelu(w[:1])",
    "t.rrelu(x)", "t.rrelu(f, 0.1, 0.5)", "t.celu_(x * 1, 2.0)", "t.selu_(x * 1)", "t.threshold_(x * 1, 0.35, 9.0)",
    "t.rrelu_(x * 1)", "t.alpha_dropout(x, 0.5, False)", "t.dropout_(x * 1, 0.0, True)",
    "t.feature_dropout(deep, 0.0, True)", "t.alpha_dropout(x, 1.0, True)", "t.dropout_(x * 1, 1.0, True)",
])  # fmt: skip
def test_values_and_gradients(expression: str) -> None:
    same(expression, **GIVEN)


@pytest.mark.parametrize("expression", [
    "t.rrelu(x, 0.1, 0.3, True)", "t.rrelu(f, training=True)", "t.rrelu_(x * 1, 0.1, 0.3, True)",
    "t.rrelu(-deep.detach(), 0.1, 0.3, True)", "t.alpha_dropout(deep, 0.4, True)",
    "t.alpha_dropout_(deep * 1, 0.4, True)", "t.alpha_dropout(f, 0.5, True)", "t.dropout_(deep * 1, 0.3, True)",
    "t.feature_alpha_dropout(deep, 0.5, True)", "t.feature_alpha_dropout_(deep * 1, 0.5, True)",
    "t.feature_dropout(deep, 0.5, True)", "t.feature_dropout_(deep * 1, 0.5, True)",
])  # fmt: skip
def test_same_seed_same_numbers(expression: str) -> None:
    same(f"t.manual_seed(7) and {expression}", **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("t.rrelu(x, 0.5, 0.3, True)", "Lower bound should be less than or equal to the upper bound"),
        ("t.celu(x, 0)", "ZeroDivisionError: alpha cannot be 0 for CELU"),
        ("t.alpha_dropout(x, 1.5, True)", "dropout probability has to be between 0 and 1, but got 1.5"),
        ("t.dropout_(x * 1, -0.5, True)", "dropout probability has to be between 0 and 1, but got -0.5"),
        ("t.feature_dropout(f, 0.5, True)", "Feature dropout requires at least 2 dimensions in the input"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)
