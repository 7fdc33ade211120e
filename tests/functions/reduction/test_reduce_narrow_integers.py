"""Sums of narrow integers and of truths, by themselves and inside other functions, are added as int64."""

from collections.abc import Callable

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F

HIGH = {"uint8": 200, "int8": 100, "int16": 30_000, "int32": 2_000_000_000}
Sums = Callable[[ad.Tensor], ad.Tensor]
# each adds more than its elements can hold; none multiplies elements first, which wraps as PyTorch's does
SUMS: dict[str, Sums] = {
    "sum": ad.sum,
    "sum of rows": lambda x: x.sum(1),
    "nansum": ad.nansum,
    "cumsum": lambda x: x.cumsum(1),
    "trace": lambda x: ad.trace(x[:, :2]),
    "einsum to a number": lambda x: ad.einsum("ij->", x),
    "einsum to columns": lambda x: ad.einsum("ij->j", x),
    "einsum of a diagonal": lambda x: ad.einsum("ii->", x[:, :2]),
    "einsum of sums": lambda x: ad.einsum("ij,k->", x, ad.ones_like(x[0])),
    "l1_loss": lambda x: F.l1_loss(x, ad.zeros_like(x), reduction="sum"),
    "count_nonzero": ad.count_nonzero,
}
REALS: dict[str, Sums] = {
    "cov": ad.cov,
    "cov with weights": lambda x: ad.cov(x, fweights=ad.tensor([1, 2, 3])),
    "corrcoef": ad.corrcoef,
    "trapezoid": ad.trapezoid,
    "trapezoid over rows": lambda x: ad.trapezoid(x, dim=0),
}


def narrow(kind: str) -> ad.Tensor:
    high = HIGH[kind]
    return ad.tensor([[high, high // 2, 3], [1, high, high]], dtype=getattr(ad, kind))


@pytest.mark.parametrize("kind", HIGH)
@pytest.mark.parametrize("name", SUMS)
def test_sums_are_those_of_int64(name: str, kind: str) -> None:
    x = narrow(kind)
    found, expected = SUMS[name](x), SUMS[name](x.long())
    assert found.tolist() == expected.tolist()
    assert found.dtype is ad.int64
    assert ad.compile(SUMS[name])(x).tolist() == expected.tolist()


@pytest.mark.parametrize("kind", HIGH)
@pytest.mark.parametrize("name", REALS)
def test_statistics_and_areas_are_those_of_real_numbers(name: str, kind: str) -> None:
    x = narrow(kind)
    if "over rows" in name or name == "trapezoid":
        x = x // 2  # the sum of the two ends keeps the type of its elements
    found = REALS[name](x)
    assert found.dtype is ad.float32
    np.testing.assert_allclose(found.numpy(), REALS[name](x.double()).numpy(), rtol=1e-5)


@pytest.mark.parametrize("kind", HIGH)
def test_running_areas_add_more_than_an_element_holds(kind: str) -> None:
    x = ad.full((9,), HIGH[kind] // 4, dtype=getattr(ad, kind))
    expected = [HIGH[kind] // 4 * float(n) for n in range(1, 9)]
    assert ad.cumulative_trapezoid(x).tolist() == expected
    steps = ad.arange(9, dtype=getattr(ad, kind))
    assert ad.cumulative_trapezoid(x, steps).tolist() == expected


def test_truths_are_counted() -> None:
    x = ad.tensor([True, True, False])
    assert ad.einsum("i->", x).tolist() == 2
    assert F.l1_loss(x.byte(), ad.zeros(3, dtype=ad.uint8), reduction="sum").tolist() == 2


def test_cosines_of_truths_and_bytes_are_those_of_numbers() -> None:
    x, y = ad.tensor([[1, 0, 1], [1, 1, 0]]), ad.tensor([[1, 1, 0], [1, 1, 0]])
    one = ad.ones(2, dtype=ad.int64)
    expected = [0.5, 0.0]
    for kind in (ad.bool, ad.uint8, ad.int8, ad.float64):
        found = F.cosine_embedding_loss(x.to(kind), y.to(kind), one, reduction="none")
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)
    far = F.cosine_embedding_loss(
        ad.tensor([[10, 10, 10]], dtype=ad.int8), ad.tensor([[1, 0, 0]], dtype=ad.int8), ad.tensor([1])
    )
    np.testing.assert_allclose(far.item(), 1.0 - 1.0 / np.sqrt(3.0), rtol=1e-6)


@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_of_integers_alone_are_refused(loss: Callable[..., ad.Tensor], reduction: str) -> None:
    x = ad.tensor([200, 1], dtype=ad.uint8)
    with pytest.raises(NotImplementedError, match=r"not implemented for adjoint\.uint8"):
        loss(x, x, reduction=reduction)
    assert loss(x, x.float(), reduction="sum").item() == 0.0


def test_a_mean_of_integers_is_refused() -> None:
    x = ad.tensor([200, 1], dtype=ad.uint8)
    with pytest.raises(RuntimeError, match=r"mean\(\): could not infer output dtype"):
        F.l1_loss(x, x)
    with pytest.raises(RuntimeError, match="Integral inputs not supported"):
        F.kl_div(x, x, reduction="sum")


@pytest.mark.parametrize("kind", [ad.uint8, ad.int8, ad.int32])
def test_powers_in_a_vandermonde_matrix_are_int64(kind: ad.dtype) -> None:
    found = ad.vander(ad.tensor([100], dtype=kind), 3)
    assert (found.dtype, found.tolist()) == (ad.int64, [[10_000, 100, 1]])
