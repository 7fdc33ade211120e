"""Plans of basic indices, which are made once for a shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.functions.indexing import index_plan

VALUES = np.arange(24.0).reshape(2, 3, 4)
KEYS: list[Any] = [
    (0, 1), (slice(None), 2), (..., None), (None, 1, ..., slice(1, 3)), (slice(-2, None), ..., -1), (1, 2, 3),
    (slice(5, 1),), (slice(None, None, 2), slice(1, None)), ...,
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_reads_and_writes_are_numpys_the_second_time_too(key: Any) -> None:
    for turn in range(2):
        x, expected = ad.tensor(VALUES), VALUES.copy()
        np.testing.assert_array_equal(x[key].numpy(), expected[key])
        x[key] = -1.5 - turn
        expected[key] = -1.5 - turn
        np.testing.assert_array_equal(x.numpy(), expected)
        x[key] = ad.tensor(VALUES[key])
        np.testing.assert_array_equal(x.numpy(), VALUES)


def test_truths_and_numbers_do_not_share_a_plan() -> None:
    x = ad.tensor(VALUES)
    assert x[1,].shape == (3, 4)
    assert x[True,].shape == (1, 2, 3, 4)
    assert x[0, 1].shape == (4,)
    assert x[False, 1].shape == (0, 3, 4)


def test_errors_come_each_time() -> None:
    x = ad.tensor(VALUES)
    for _ in range(2):
        with pytest.raises(IndexError, match="out of bounds for dimension 1"):
            x[:, 3]
        with pytest.raises(IndexError, match="too many indices"):
            x[0, 0, 0, 0]


def test_a_write_into_a_saved_tensor_is_noticed() -> None:
    w, x = ad.ones(3, requires_grad=True), ad.ones(2, 3)
    out = (w * x).sum()
    x[0, 1:] = 0.0
    assert x._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_reads_and_writes_without_a_history_need_no_plan() -> None:
    x = ad.zeros(50, 3)
    before = index_plan._make_basic_plan.cache_info()
    for i in range(50):
        x[i, 1:] = float(i)
        assert x[i, 1].item() == i
    assert index_plan._make_basic_plan.cache_info() == before


@pytest.mark.parametrize("dtype", [ad.int64, ad.int32, ad.int8])
def test_tensors_of_one_integer_are_read_as_positions(dtype: ad.dtype) -> None:
    x, row, column = ad.tensor(VALUES), ad.tensor(1, dtype=dtype), ad.tensor(-1, dtype=dtype)
    for key, plain in (((row,), (1,)), ((row, column), (1, -1)), ((..., column), (..., -1)), ((row, None), (1, None))):
        view = x[key]
        np.testing.assert_array_equal(view.numpy(), VALUES[plain])
        assert np.may_share_memory(view.array, x.array)
    np.testing.assert_array_equal(x[row].numpy(), VALUES[1])
    version = x._version
    x[row, 0, column] += 5
    assert x._version == version + 2
    assert x[1, 0, 3] == VALUES[1, 0, 3] + 5
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        x[ad.tensor(7, dtype=dtype)]


def test_no_index_plan_is_made_for_a_tensor_of_one_integer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_plan.IndexPlan, "__init__", lambda *_, **__: pytest.fail("a plan is made"))
    x, one = ad.zeros(3, 4), ad.tensor(1)
    assert x[one, 2].item() == 0
    x[one, one] = 2.5
    assert x.sum().item() == 2.5


def test_a_compiled_step_reads_the_position_of_each_call() -> None:
    step = ad.compile(lambda x, at: x[at] * 2)
    x = ad.arange(5.0)
    assert [step(x, ad.tensor(at)).item() for at in (1, 3, 0)] == [2, 6, 0]
