"""The setting for the precision of products of float32 matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op.matmul_precision import setting


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    before = setting["matmul"]
    yield
    setting["matmul"] = before


def test_the_highest_unless_set() -> None:
    assert ad.get_float32_matmul_precision() == "highest"
    for precision in ("high", "medium", "highest"):
        ad.set_float32_matmul_precision(precision)
        assert ad.get_float32_matmul_precision() == precision


@pytest.mark.parametrize("precision", ["HIGH", "", "bfloat16", "high "])
def test_what_is_no_precision(precision: str) -> None:
    ad.set_float32_matmul_precision("high")
    with pytest.raises(RuntimeError, match=f"'{precision}' is not one of 'highest', 'high', or 'medium'"):
        ad.set_float32_matmul_precision(precision)
    assert ad.get_float32_matmul_precision() == "high"


@pytest.mark.parametrize("precision", [1, None, b"high", True])
def test_what_is_no_string(precision: Any) -> None:
    message = f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}"
    with pytest.raises(RuntimeError, match=message):
        ad.set_float32_matmul_precision(precision)


def test_names_and_default_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    assert torch.get_float32_matmul_precision() == ad.get_float32_matmul_precision()
    with pytest.raises(RuntimeError, match="set_float32_matmul_precision expects a str, but got int"):
        torch.set_float32_matmul_precision(1)


def test_eager_products_stay_exact() -> None:
    draw = np.random.default_rng(0).standard_normal
    x, y = (ad.from_numpy(draw((64, 64)).astype(np.float32)) for _ in range(2))
    before = (x @ y).numpy().copy()
    ad.set_float32_matmul_precision("medium")
    assert np.array_equal((x @ y).numpy(), before)
