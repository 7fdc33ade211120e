"""Windows against PyTorch: values, types, errors."""

import pytest
from tests.support.oracle import same, same_error

NAMES = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("arguments", [
    "0", "1", "2", "5", "6, False", "1, False", "9, periodic=True, dtype=t.float64", "4, requires_grad=True",
])  # fmt: skip
def test_values(name: str, arguments: str) -> None:
    if name == "kaiser_window" and "periodic=" in arguments:  # which PyTorch takes only without other keywords
        arguments = "9, True, dtype=t.float64"
    same(f"t.{name}({arguments})")


@pytest.mark.parametrize("expression", [
    "t.hamming_window(6, False, 0.5, 0.5)", "t.hamming_window(6, True, 0.6)", "t.kaiser_window(5, False, 8.0)",
    "t.kaiser_window(7, True, 0.5, dtype=t.float64)",
])  # fmt: skip
def test_shapes_that_are_set(expression: str) -> None:
    same(expression)


@pytest.mark.parametrize("name", NAMES)
def test_errors(name: str) -> None:
    same_error(f"t.{name}(-1)", f"{name} requires non-negative window_length, got window_length=-1")
    same_error(f"t.{name}(5, dtype=t.int64)", f"{name} expects floating point dtypes, got: ")
    same_error(f"t.{name}(3.0)", "int")
