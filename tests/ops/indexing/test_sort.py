"""Parts of an order are what sorting everything gives, ties and NaN included."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op import eager_kernels
from adjoint.core.op.eager_kernels import RowKernel
from adjoint.ops.indexing import indexing, sort

KINDS = ["float32", "float64", "int64", "uint8", "bool"]


def rows_of(kind: str, missing: float = 0.0) -> Any:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 40, (3, 200, 2))
    if kind == "bool":
        return rows > 20
    rows = rows.astype(kind)
    if missing:
        rows[rng.random(rows.shape) < missing] = np.nan
    return rows


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("count", [0, 1, 7, 49, 120, 200])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("enough", [1, 2048])  # elements, from which on rows are parted
def test_leading_is_the_head_of_argsort(
    kind: str, count: int, descending: bool, enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sort, "MIN_PARTITION_SIZE", enough)
    for missing in (0.0, 0.5) if "float" in kind else (0.0,):
        x = ad.from_numpy(rows_of(kind, missing))
        found = sort.leading(x, axis=1, count=count, descending=descending)
        whole = indexing.argsort(x, axis=1, descending=descending)
        np.testing.assert_array_equal(found.numpy(), whole.numpy()[:, :count])


@pytest.mark.parametrize("rank", [0, 1, 99, 150, 199])
@pytest.mark.parametrize("kind", KINDS)
def test_ranked_is_an_element_of_argsort(kind: str, rank: int) -> None:
    for missing in (0.0, 0.5) if "float" in kind else (0.0,):
        x = ad.from_numpy(rows_of(kind, missing))
        found = sort.index_at_rank(x, axis=1, rank=rank)
        whole = indexing.argsort(x, axis=1, descending=False)
        np.testing.assert_array_equal(found.numpy(), whole.numpy()[:, rank : rank + 1])


def test_many_calls_of_small_rows_load_the_kernel_of_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager_kernels, "MAX_CALLS_OF_SMALL_ROWS", 3)
    loaded: list[str] = []

    def load(name: str) -> Any:
        loaded.append(name)
        return lambda x, **params: np.zeros(1)

    monkeypatch.setattr(eager_kernels, "row_kernel_slot", SimpleNamespace(call=load))
    positions, sums = RowKernel("leading", finds_positions=True), RowKernel("cumsum")
    found = [kernel.call(np.ones(4)) for _ in range(5) for kernel in (positions, sums)]
    assert loaded == ["leading"]
    assert [x is None for x in found] == [True, True] * 3 + [False, True] * 2
