"""A compiled step writes its outputs and nothing beside them, whatever their length."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

LENGTHS = [*range(20), 31, 32, 33, 47, 63, 64, 65, 127, 129, 255, 257]
MARGIN = 64
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "elementwise": lambda b, x: b.mul_(0.5).add_(x),
    "softmax": lambda b, x: b.copy_(ad.softmax(b + x, 0)),
    "row of a product": lambda b, x: b.copy_((x[None, :2] @ ad.ones(min(2, len(x)), len(x)))[0] + x),
    "every second": lambda b, x: b[::2].add_(x[::2]),
    "sum": lambda b, x: b.copy_(x.sum().expand(len(x))),
    "joined": lambda b, x: b.copy_(ad.cat([x[: len(x) // 2], x[len(x) // 2 :] * 2])),
    "gathered": lambda b, x: b.copy_(x[ad.arange(len(x)).flip(0)]),
}  # fmt: skip


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_rows_of_every_length(write: str, captured: bool) -> None:
    """The memory before and after a row, which other tensors may have, keeps what it held."""
    for n in LENGTHS:
        seen = []
        for wrap in (ad.compile, lambda step: step):
            memory = np.full(n + 2 * MARGIN, 7.0, np.float32)
            memory[MARGIN : MARGIN + n] = np.linspace(0, 1, n)
            row = ad.from_numpy(memory[MARGIN : MARGIN + n])
            if captured:
                step = wrap(lambda x, row=row: (WRITES[write](row, x), row * 2)[1])
                results = [step(ad.arange(float(n)) * 0.1) for _ in range(2)]
            else:
                step = wrap(lambda row, x: (WRITES[write](row, x), row * 2)[1])
                results = [step(row, ad.arange(float(n)) * 0.1) for _ in range(2)]
            seen.append((memory, *(r.numpy() for r in results)))
        for compiled, eager in zip(*seen, strict=True):
            np.testing.assert_allclose(compiled, eager, rtol=1e-5, atol=1e-6, err_msg=f"length {n}")
        assert (seen[0][0][:MARGIN] == 7).all()
        assert (seen[0][0][MARGIN + n :] == 7).all()
