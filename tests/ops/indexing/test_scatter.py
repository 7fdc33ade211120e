"""Products by position: their second derivatives, however many zeros meet and however they are asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad

PLACES = [0, 0, 1, 1, 0, 1]
POINTS = [[0.0, 0, 3, 0, 2, 5], [0.0, 2, 3, 0, 2, 5], [0.0] * 6, [1.0, 2, 3, 4, 0, 5], [1.0, 2, 3, 4, 2, 5]]
Function = Callable[[ad.Tensor, ad.Tensor], ad.Tensor]
WEIGHTS = ad.tensor([1.0, 3.0], dtype=ad.float64)
PRODUCTS: dict[str, Function] = {
    "scatter_reduce": lambda x, at: ad.ones(2, dtype=x.dtype).scatter_reduce(0, at, x, "prod"),
    "into others": lambda x, at: x[:2].scatter_reduce(0, at[:4], x[2:], "prod") * WEIGHTS,
    "alone": lambda x, at: x[:2].scatter_reduce(0, at[:4], x[2:], "prod", include_self=False) * WEIGHTS,
    "index_reduce": lambda x, at: ad.ones(2, dtype=x.dtype).index_reduce(0, at, x, "prod"),
    "segment_reduce": lambda x, at: ad.segment_reduce(x, "prod", lengths=at[:2] * 0 + 3),
    "columns": lambda x, at: ad.ones(3, 2, dtype=x.dtype).scatter_reduce(1, at.reshape(3, 2), x.reshape(3, 2), "prod"),
}


def differentiate_twice(f: Callable[[ad.Tensor], ad.Tensor]) -> Callable[[ad.Tensor], ad.Tensor]:
    """The matrix of second derivatives, row by row, by gradients of gradients."""

    def rows(x: ad.Tensor) -> ad.Tensor:
        (slope,) = ad.autograd.grad(f(x), x, create_graph=True)
        return ad.stack([ad.autograd.grad(slope[i], x, retain_graph=True)[0] for i in range(len(x))])

    return rows


WAYS: dict[str, Callable[[Callable[[ad.Tensor], ad.Tensor]], Callable[[ad.Tensor], ad.Tensor]]] = {
    "eager": differentiate_twice,
    "compiled": lambda f: ad.compile(differentiate_twice(f)),
    "hessian": ad.func.hessian,
    "forward over forward": lambda f: ad.func.jacfwd(ad.func.jacfwd(f)),
    "reverse over reverse": lambda f: ad.func.jacrev(ad.func.jacrev(f)),
    "reverse over forward": lambda f: ad.func.jacrev(ad.func.jacfwd(f)),
    "compiled hessian": lambda f: ad.compile(ad.func.hessian(f)),
    "mapped hessian": lambda f: lambda x: ad.vmap(ad.func.hessian(f))(ad.stack([x.detach() * 2, x.detach()]))[1],
}


def slopes_of_gradient(f: Callable[[ad.Tensor], ad.Tensor], point: list[float]) -> np.ndarray:
    rows = []
    for i in range(len(point)):
        ends = []
        for step in (1e-4, -1e-4):
            x = ad.tensor([v + step * (j == i) for j, v in enumerate(point)], dtype=ad.float64, requires_grad=True)
            ends.append(ad.autograd.grad(f(x), x)[0].numpy())
        rows.append((ends[0] - ends[1]) / 2e-4)
    return np.array(rows)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("point", POINTS, ids=str)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_second_derivatives_of_products(name: str, way: str, point: list[float]) -> None:
    at = ad.tensor(PLACES)

    def total(x: ad.Tensor) -> ad.Tensor:
        return (PRODUCTS[name](x, at) * 1.5).sum()

    found = WAYS[way](total)(ad.tensor(point, dtype=ad.float64, requires_grad=True))
    np.testing.assert_allclose(found.detach().numpy(), slopes_of_gradient(total, point), atol=1e-5)


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_positions_that_are_not_known_while_a_step_is_traced_or_mapped(point: list[float]) -> None:
    def total(x: ad.Tensor, at: ad.Tensor) -> ad.Tensor:
        return PRODUCTS["into others"](x, at).sum()

    places = ad.tensor([PLACES, [1, 1, 1, 1, 0, 0]])
    x = ad.tensor(point, dtype=ad.float64)
    wanted = [slopes_of_gradient(lambda x, at=at: total(x, at), point) for at in places]
    mapped = ad.vmap(ad.func.hessian(total), (None, 0))
    for found in (mapped(x, places), ad.compile(mapped)(x, places)):
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-5)
    compiled = ad.compile(ad.func.hessian(total))
    for at, rows in zip(places, wanted, strict=True):
        np.testing.assert_allclose(compiled(x, at).numpy(), rows, atol=1e-5)


def test_a_first_gradient_takes_no_room_for_all_pairs() -> None:
    x, at = ad.rand(2000, requires_grad=True), ad.arange(2000) % 7
    step = ad.compile(lambda x, at: ad.autograd.grad(ad.ones(7).scatter_reduce(0, at, x, "prod").sum(), x)[0])
    step(x, at)
    assert max(equation.size for equation in step.graph.equations) <= 2000


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_an_index_expanded_over_rows_moves_whole_rows(dtype: type) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, (40, 3, 5)).astype(dtype)
    at = ad.tensor(rng.integers(0, 6, (40, 1, 1)))
    every, some = at.expand(-1, 3, 5), at.expand(-1, 3, 5)[:30]
    for index in (every, some, every[:, :, :4], at.expand(-1, 3, 1)):
        dense = index.contiguous()
        source, table = ad.tensor(x), ad.tensor(x[:6])
        sums = [ad.zeros(6, 3, 5, dtype=source.dtype).scatter_add(0, i, source) for i in (index, dense)]
        np.testing.assert_array_equal(*(s.numpy() for s in sums))
        np.testing.assert_array_equal(table.gather(0, index).numpy(), table.gather(0, dense).numpy())
