"""Random steps whose sizes follow from numbers: compiled, they give what they give eagerly in every call."""

from __future__ import annotations

import pytest
from tests.support.fuzz.sizes.generate import write_step
from tests.support.fuzz.sizes.programs import find_difference

pytest.importorskip("llvmlite")
EACH = 5


def check(first: int) -> None:
    """Fail with the first step, of `EACH` from this number, that differs."""
    for number in range(first, first + EACH):
        text = write_step(number)
        found = find_difference(number, text)
        assert found is None, f"step {number}: {found}\n{text}"


@pytest.mark.sweep(20)
@pytest.mark.parametrize("first", range(0, 200, EACH))
def test_steps(first: int) -> None:
    check(first)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(200, 4_000, EACH))
def test_more_steps(first: int) -> None:
    check(first)


# Each of these was wrong, or was compiled for each size.
STEPS = {
    "a slice of a slice": "x[:n][:, 1:].square().sum()",
    "a slice of a slice, both of numbers": "x[: 1 + n % 4][:, m % 4 :].square().sum()",
    "sizes that shrink": "(x[n % 20 :] @ y[:10]).cumsum(0).sum().tanh() + (x[: n % 20 + 1] @ y[:10]).cumsum(0).sum()",
    "a rest": "(x[: 16 + n % 8] @ y[:10]).softmax(1).cumsum(0).square().sum()",
    "a rest of a quotient below 0": "x[1 : 3 + ((n - 50) // 3) % 7].sum()",
    "a rest by a length": "(ad.arange(1 + n % 5)[:, None].expand(-1, len(v)) % len(v) * x[:1, :1]).T.reshape(-1).sum()",
}


@pytest.mark.parametrize("loss", STEPS.values(), ids=STEPS.keys())
def test_sizes_in_words_that_were_wrong(loss: str) -> None:
    step = f"def step(n, m, v):\n    x.grad = w.grad = None\n    loss = {loss} + 0 * w.sum()\n"
    step += "    loss.backward()\n    return loss, x.grad, w.grad"
    for number in range(2):
        assert find_difference(number, step) is None
