"""A finite number beyond the largest of a floating type is refused where it becomes an element; infinities pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import Tensor
from adjoint.core.dtype.dtype_info import LARGEST

MASK = ad.tensor([True, False])
FIRST = ad.tensor([0])


def assign(x: Tensor, key: Any, number: float) -> Tensor:
    out = x.clone()
    out[key] = number
    return out


CALLS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "fill_": lambda x, n: x.clone().fill_(n),
    "full": lambda x, n: ad.full((2,), n, dtype=x.dtype),
    "full_like": ad.full_like,
    "new_full": lambda x, n: x.new_full((2,), n),
    "clamp": lambda x, n: x.clamp(min=-n, max=n),
    "clamp_max": lambda x, n: x.clamp_max(n),
    "masked_fill": lambda x, n: x.masked_fill(MASK, n),
    "masked_fill, negative": lambda x, n: x.masked_fill(MASK, -n),
    "masked_fill_": lambda x, n: x.clone().masked_fill_(MASK, n),
    "masked_fill, gradient": lambda x, n: x.clone().requires_grad_().masked_fill(MASK, n),
    "pad": lambda x, n: F.pad(x, (1, 1), value=n),
    "scatter": lambda x, n: x.scatter(0, FIRST, n),
    "index_fill": lambda x, n: x.index_fill(0, FIRST, n),
    "threshold": lambda x, n: F.threshold(x, 0.0, n),
}
# PyTorch makes of the number a tensor of float32 first, so that of float16 it becomes an infinity.
THROUGH_FLOAT32: dict[str, Callable[[Tensor, float], Tensor]] = {
    "where": lambda x, n: ad.where(MASK, x, n),
    "x[0] = n": lambda x, n: assign(x, 0, n),
    "x[mask] = n": lambda x, n: assign(x, MASK, n),
    "x[indices] = n": lambda x, n: assign(x, FIRST, n),
}
REFUSAL = r"value cannot be converted to type \S+ without overflow: -?1(\.0)?e?\+?\d+"


@pytest.mark.parametrize(("dtype", "number"), [(ad.float32, 1e40), (ad.float16, 1e9), (ad.float16, 10**9)])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_number_beyond_the_type_is_refused(call: Any, dtype: Any, number: float) -> None:
    x = ad.ones(2, dtype=dtype)
    with pytest.raises(RuntimeError, match=REFUSAL):
        call(x, number)
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("call", THROUGH_FLOAT32.values(), ids=THROUGH_FLOAT32)
def test_number_beyond_float32_is_refused(call: Any) -> None:
    with pytest.raises(RuntimeError, match=REFUSAL):
        call(ad.ones(2), 1e40)


@pytest.mark.parametrize("call", {**CALLS, **THROUGH_FLOAT32}.values(), ids={**CALLS, **THROUGH_FLOAT32})
def test_infinities_nan_and_the_largest_number_pass(call: Any) -> None:
    for number in (math.inf, math.nan, LARGEST["f"], 10**9):
        assert call(ad.ones(2), number).dtype is ad.float32
    assert call(ad.ones(2, dtype=ad.float64), 1e300).dtype is ad.float64


def test_a_compiled_step_refuses_it_too() -> None:
    with pytest.raises(RuntimeError, match="without overflow"):
        ad.compile(lambda x: x.half().masked_fill(MASK, -1e9).float().sum())(ad.ones(2))
