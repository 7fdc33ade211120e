"""Writes to parts of memory that a step made: in place, where nothing needs what was there."""

from __future__ import annotations

import re

import pytest

import adjoint as ad
from adjoint import Tensor


def compare(function: ad.core.typing.Function, *arguments: Tensor) -> ad.core.typing.Function:
    """Return the compiled function, once it gave what the eager one does."""
    compiled = ad.compile(function)
    for _ in range(3):
        for mine, eager in zip(compiled(*arguments), function(*arguments), strict=True):
            assert ad.equal(mine, eager)
    return compiled


def fill_rows(x: Tensor) -> tuple[Tensor]:
    """Each row is that before it, plus one of x."""
    rows = ad.zeros(64, x.shape[0], x.shape[2])
    rows[0] = x[:, 0]
    for t in range(1, 64):
        rows[t] = rows[t - 1] * 0.5 + x[:, t]
    return (rows * 2,)


def test_rows_that_are_filled_one_by_one_lie_in_one_place() -> None:
    step = compare(fill_rows, ad.rand(16, 64, 32))
    arena = re.search(r"arena of (\d+) bytes", str(step.explain()))
    assert arena is not None
    assert int(arena[1]) < 2 * (64 * 16 * 32 * 4)


@pytest.mark.parametrize("reads_later", [False, True])
def test_what_is_needed_later_is_not_written_over(reads_later: bool) -> None:
    def change(x: Tensor) -> tuple[Tensor, ...]:
        first = x * 2
        second = first.clone()
        second[:, ::2] = first[:, 1::2]
        second[:, ::2] += 1
        third = second.reshape(4, 4, 2)
        third[:, 1] = third[:, 2] - third[:, 0]
        return (second * 2, first.sum(0) if reads_later else third.sum(0))

    compare(change, ad.rand(4, 8))


def test_a_write_that_reads_what_it_replaces() -> None:
    def change(x: Tensor) -> tuple[Tensor]:
        rows = x * 1
        for _ in range(3):
            rows[1:] = rows[:-1]
            rows[:, 1:] += rows[:, :-1].flip(1)
        return (rows * 1,)

    compare(change, ad.rand(6, 5))


def scan(x: Tensor, factors: Tensor) -> None:
    """h[t] = factors[t] h[t - 1] + x[t], in place, by powers of two."""
    width = 1
    while width < x.shape[1]:
        blocks = x.view(x.shape[0], -1, 2 * width, x.shape[2])
        scales = factors.view(x.shape[0], -1, 2 * width, x.shape[2])
        blocks[:, :, width:].add_(scales[:, :, width:] * blocks[:, :, width - 1 : width])
        scales[:, :, width:].mul_(scales[:, :, width - 1 : width])
        width *= 2


def test_a_parallel_scan_takes_no_call_of_numpy() -> None:
    def run(x: Tensor, factors: Tensor) -> tuple[Tensor, ...]:
        h, a = x.clone(), factors.clone()
        scan(h, a)
        return h * 1, a * 1

    step = compare(run, ad.rand(3, 16, 4), ad.rand(3, 16, 4))
    assert " 0 NumPy calls" in str(step.explain())


def test_gradients_go_through_writes_to_views_of_views() -> None:
    def change(x: Tensor, y: Tensor) -> Tensor:
        h = x * 1
        h.view(2, 4, 2, 3)[:, :, 1].transpose(0, 1)[1:].mul_(y)
        return h

    def differentiate(x: Tensor, y: Tensor) -> list[Tensor]:
        gradients = ad.autograd.grad((change(x, y) ** 2).sum(), (x, y))
        return [g for g in gradients if g is not None]

    x, y = ad.rand(2, 8, 3).requires_grad_(), ad.rand(3, 2, 3).requires_grad_()
    compare(differentiate, x, y)
    wide = [each.detach().double().requires_grad_() for each in (x, y)]
    ad.autograd.gradcheck(change, wide)
    ad.autograd.gradgradcheck(change, wide)
