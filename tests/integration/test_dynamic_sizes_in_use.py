"""Sizes known at run time, in the words in which programs use them: one program for all, with eager numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn

SIZES = (16, 9, 40, 12, 25)


def check(
    step: Callable[..., Any], draw: Callable[[int], Any], sizes: tuple[int, ...] = SIZES, programs: int = 2
) -> None:
    compiled = ad.compile(step)
    for n in sizes:
        x = draw(n)
        ad.manual_seed(n)
        found = compiled(x)
        ad.manual_seed(n)
        expected = step(x)
        for a, b in zip(flat(found), flat(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
    assert compiled.compilations == programs, [str(r) for r in compiled.recompilations]
    assert "s0" in str(compiled.graph)


def flat(result: Any) -> list[Any]:
    return [x.detach().numpy() for x in (result if isinstance(result, (tuple, list)) else (result,))]


def others(x: Any) -> Any:
    return ~ad.eye(len(x), dtype=ad.bool)


# Masks and positions that a step makes of nothing but sizes are others in each call.
OF_SIZES: dict[str, Callable[[Any], Any]] = {
    "pairs of a mask": lambda x: (x @ x.t())[others(x)].view(len(x), -1),
    "positions": lambda x: (ad.arange(len(x))[:, None] < ad.arange(len(x))).nonzero(),
    "positions above the diagonal": lambda x: x[ad.triu_indices(len(x), len(x), 1)[0]].sum(0),
    "positions below the diagonal": lambda x: x[ad.tril_indices(len(x), len(x), -1)[1]].sum(0),
    "every second row": lambda x: x[ad.arange(x.shape[0]) % 2 == 0],
    "masked_select": lambda x: (x @ x.t()).masked_select(ad.ones(len(x), len(x)).tril(-1).bool()),
}
CREATED: dict[str, Callable[[Any], Any]] = {
    "eye": lambda x: ad.eye(len(x)) * 2 - ad.eye(x.shape[0], 3, dtype=ad.float64) @ ad.eye(3, len(x)).double(),
    "steps": lambda x: ad.linspace(0, 1, len(x)) * x[:, 0],
    "full of a size": lambda x: (ad.full((3,), x.shape[0]), ad.tensor([x.shape[0], 3]), ad.full((2,), len(x) / 2)),
    "classes": lambda x: F.one_hot(ad.arange(len(x)) % 5, len(x)),
    "draws in its order": lambda x: ad.rand_like(x.t()) + ad.randn_like(x[:, :2]).sum(),
    "puts": lambda x: ad.zeros(len(x), 4).index_put((ad.arange(len(x)), ad.arange(len(x)) % 4), x[:, 0]),
    "strides": lambda x: x * x.t().contiguous().stride(0),
}
NUMBERS: dict[str, Callable[[Any], Any]] = {
    "len": lambda x: x.sum(0) / len(x) + len([1, 2]),
    "math": lambda x: x / math.sqrt(x.shape[0]) + math.ceil(len(x) / 2),
    "int": lambda x: x[: int(x.shape[0] * 0.7)].sum(0) + int(x.shape[0]),
    "bounds": lambda x: ad.arange(20).clamp(max=x.shape[0] - 1) + ad.where(x[:1, :1] > 0, 1, len(x)),
    "fill": lambda x: x.masked_fill(x > 0, x.shape[0]),
    "quantile": lambda x: x.quantile(0.25, 0),
    "cov": lambda x: ad.cov(x.T),
}
SHAPED: dict[str, Callable[[Any], Any]] = {
    "chunks of the batch": lambda x: [part.sum(0) for part in x.chunk(2)],
    "frames": lambda x: [F.pad(x.t()[None], (2, 1), mode=mode) for mode in ("replicate", "reflect", "circular")],
    "slices of slices": lambda x: x[1:][2:].sum(0) + x[1::2][1:-1].mean(0),
    "leading": lambda x: (x.topk(max(1, len(x) // 3), 0).values, x.sort(0).indices, x.cumsum(0), x.t().cumsum(1)),
    "labels": lambda x: F.cross_entropy(x @ x.t(), ad.arange(len(x))),
    "soft labels": lambda x: F.cross_entropy(x, x.softmax(1)),
}
ALL = {**OF_SIZES, **CREATED, **NUMBERS, **SHAPED}


@pytest.mark.sweep(6)
@pytest.mark.parametrize("name", ALL)
def test_one_program_serves_sizes_however_they_are_used(name: str) -> None:
    check(ALL[name], lambda n: ad.randn(n, 3, generator=ad.Generator().manual_seed(n)))


def test_a_mask_made_of_sizes_chooses_by_those_of_the_call() -> None:
    chosen = ad.compile(lambda x: x[ad.arange(x.shape[0]) % 2 == 0])
    assert [len(chosen(ad.ones(n))) for n in (16, 9, 40, 7)] == [8, 5, 20, 4]


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: F.cross_entropy(
            (x @ x.t()).masked_fill(ad.eye(len(x), dtype=ad.bool), -1e9), ad.arange(len(x)).roll(1)
        ),
        lambda x: x.chunk(3, 1)[0].pow(2).sum() + x.view(len(x), 3).split([1, 2], 1)[1].exp().mean(),
        lambda x: ad.linalg.solve_triangular(x.t() @ x + ad.eye(3), x.t(), upper=True).pow(2).sum(),
        lambda x: (
            x.sort(0).values.topk(2, 1).values.prod(1).sum() + (x @ x.t()).gather(1, ad.arange(len(x))[:, None]).sum()
        ),
    ],
    ids=["contrast", "unused pieces", "triangular", "order"],
)
def test_gradients(loss: Callable[[Any], Any]) -> None:
    def step(x: Any) -> Any:
        (gradient,) = ad.autograd.grad(loss(x), [x])
        return gradient

    check(step, lambda n: ad.randn(n, 3, generator=ad.Generator().manual_seed(n)).requires_grad_(), (16, 9, 12))


def test_a_cell_in_a_loop_over_time_serves_every_batch() -> None:
    ad.manual_seed(0)
    network = nn.LSTM(3, 8, batch_first=True)
    check(lambda x: network(x)[0][:, -1], lambda n: ad.randn(n, 4, 3), (16, 9, 40))


def test_halves_of_even_sizes_are_known_to_be_halves() -> None:
    def step(x: Any) -> Any:
        b, t = x.shape
        first, second = x.view(b, 2, t // 2).transpose(1, 2).reshape(b, t).split(t // 2, 1)
        return first * second + x.view(b, t // 2, 2).amax(-1), x.view(b, -1, 2).sum(-1)

    check(step, lambda n: ad.randn(n // 2, n), (16, 10, 40, 12))


@pytest.mark.parametrize("divisor", [2, 8])
def test_a_multiple_is_a_guard_on_the_rest(divisor: int) -> None:
    def step(x: Any) -> Any:
        if len(x) % divisor:
            return x.mean(0)
        return x.view(len(x) // divisor, divisor, 3).sum((0, 1))

    check(step, lambda n: ad.randn(n, 3), (17, 16, 24, 40, 9, 5), 3)


def test_a_dimension_of_which_the_number_is_needed_is_told() -> None:
    def step(x: Any) -> Any:
        return sum(x[:, i] for i in range(x.shape[1]))

    compiled = ad.compile(step)
    for shape in ((4, 3), (5, 4), (6, 5)):
        compiled(ad.randn(*shape))
    assert str(compiled.recompilations[-1]) == "step: dimension 1 of argument 0: 4 → 5"


# ruff: noqa: NPY002  programs draw by NumPy's global generator
DRAWS: dict[str, Callable[[int], Any]] = {
    "normal": lambda n: ad.FloatTensor(np.random.normal(0, 1, (n, 3))),
    "keyword": lambda n: ad.tensor(np.random.uniform(-1, 1, size=(n, 3)), dtype=ad.float32),
    "constructor": lambda n: ad.Tensor(np.random.rand(n, 3)),
    "classes": lambda n: F.one_hot(ad.LongTensor(np.random.randint(0, 3, n)), 3).float(),
    "product": lambda n: ad.FloatTensor(np.random.rand(n * 3)).view(n, 3),
    "permutation": lambda n: ad.from_numpy(np.random.permutation(n))[:, None] * ad.ones(3),
}


@pytest.mark.parametrize("name", DRAWS)
def test_numpy_draws_as_many_numbers_as_the_call_has_rows(name: str) -> None:
    def draw_and_multiply(x: Any) -> Any:
        return (DRAWS[name](x.shape[0]) * x).sum(1)

    compiled = ad.compile(draw_and_multiply)
    results = []
    for function in (compiled, draw_and_multiply):
        np.random.seed(0)
        results.append([function(ad.ones(n, 3) * n).tolist() for n in (6, 6, 3, 6, 8, 2, 5)])
    for ours, eager in zip(*results, strict=True):
        assert ours == pytest.approx(eager, rel=1e-5)
    assert compiled.compilations == 2


def test_a_number_of_rows_that_a_host_function_refuses_is_refused_in_each_call() -> None:
    def draw_below(x: Any) -> Any:
        try:
            return x.sum() + float(np.random.randint(0, x.shape[0] - 3))
        except ValueError:
            return x.sum() - 1

    compiled = ad.compile(draw_below)
    for n in (6, 3, 4, 3, 5, 2):
        np.random.seed(0)
        found = compiled(ad.ones(n)).item()
        np.random.seed(0)
        assert found == draw_below(ad.ones(n)).item()
