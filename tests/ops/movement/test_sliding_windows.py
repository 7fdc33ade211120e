"""Windows are added back tap by tap, or several taps at once: the sums have the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from adjoint.core.op.op import op_of
from adjoint.ops.movement import sliding_windows
from adjoint.ops.movement.sliding_windows import fold, windows

Sizes = tuple[int, ...]


def add_tap_by_tap(x: np.ndarray[Any, Any], shape: Sizes, stride: Sizes, dilation: Sizes) -> np.ndarray[Any, Any]:
    out = np.zeros(shape, x.dtype)
    n = x.ndim - len(shape)
    lead = len(shape) - n
    for taps in np.ndindex(*x.shape[lead + n :]):
        for place in np.ndindex(*x.shape[lead : lead + n]):
            at = tuple(p * s + t * d for p, s, t, d in zip(place, stride, taps, dilation, strict=True))
            out[(..., *at)] += x[(..., *place, *taps)]
    return out


@pytest.mark.parametrize("least", [1, 3, 8])
@pytest.mark.parametrize(
    ("shape", "size", "stride", "dilation"),
    [
        ((2, 40), (16,), (8,), (1,)),
        ((2, 41), (17,), (8,), (1,)),
        ((50,), (9,), (12,), (1,)),
        ((30,), (4,), (3,), (2,)),
        ((2, 11, 9), (3, 4), (2, 3), (1, 1)),
        ((13, 9), (5, 3), (4, 1), (1, 2)),
    ],
)
def test_folds_have_the_bits_of_a_loop(
    least: int, shape: Sizes, size: Sizes, stride: Sizes, dilation: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sliding_windows, "MIN_TAPS_AT_ONCE", least)
    sliding_windows._find_disjoint_taps.cache_clear()
    whole = np.zeros(shape, np.float32)
    seen = op_of(windows).evaluate(whole, size=size, stride=stride, dilation=dilation)
    x = np.random.default_rng(0).standard_normal(seen.shape).astype(np.float32)
    found = op_of(fold).evaluate(x, shape=shape, stride=stride, dilation=dilation)
    sliding_windows._find_disjoint_taps.cache_clear()
    np.testing.assert_array_equal(found, add_tap_by_tap(x, shape, stride, dilation))


def test_taps_as_many_as_the_stride_are_added_at_once() -> None:
    assert len(sliding_windows._find_disjoint_taps((256,), (64,), (1,), (4,))) == 4
    assert len(sliding_windows._find_disjoint_taps((3, 3), (2, 2), (1, 1), (12, 4))) == 9
    assert len(sliding_windows._find_disjoint_taps((16,), (8,), (2,), (8,))) == 16


def test_windows_of_a_turned_array_are_those_of_its_copy() -> None:
    x = np.arange(30.0).reshape(5, 6)
    for lying in (x, x.T.copy().T, x[:, ::1]):
        seen = op_of(windows).evaluate(lying, size=(2, 3), stride=(1, 2), dilation=(2, 1))
        assert not seen.flags.writeable
        assert np.shares_memory(seen, lying)
        np.testing.assert_array_equal(seen[1, 0], x[1:4:2, :3])
