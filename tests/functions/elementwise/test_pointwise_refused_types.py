"""Types that PyTorch refuses, or joins, in a way of its own: alpha, addcdiv, lerp, clamp and `out=`."""

from typing import Any

import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")


@pytest.mark.parametrize("call", [
    lambda t: t.add(t.tensor([1]), 1, alpha=True), lambda t: t.sub(t.tensor([1.0]), 1, alpha=True),
    lambda t: t.rsub(t.tensor([1]), 1, alpha=True), lambda t: t.addcdiv(t.tensor([1]), t.tensor([1]), t.tensor([1])),
    lambda t: t.tensor([1.0]).addcdiv_(t.tensor([True]), t.tensor([1])),
    lambda t: t.lerp(t.ones(2, dtype=t.float64), t.ones(2), 0.5),
    lambda t: t.neg(t.ones(2), out=t.ones(2, dtype=t.float64)),
    lambda t: t.floor(t.ones(2, dtype=t.float64), out=t.ones(2)),
    lambda t: t.take_along_dim(t.ones(2), t.zeros(1, dtype=t.int32), 0), lambda t: t.ones(2).index_put((), t.ones(2)),
])  # fmt: skip
def test_refused_by_both(call: Any) -> None:
    with pytest.raises(RuntimeError):
        call(torch)
    with pytest.raises(
        RuntimeError,
        match=r"Boolean alpha|Integer division with addcdiv|expected dtype|to have dtype|should be Long|at least one",
    ):
        call(ad)


def test_alpha_of_truths_is_a_truth() -> None:
    yes = ad.tensor([True])
    assert ad.add(yes, yes, alpha=True).tolist() == [True]
    assert ad.add(ad.tensor([False]), yes, alpha=False).tolist() == [False]


@pytest.mark.parametrize("kinds", [("int32", "float64", "float32"), ("bool", "float64", "float32")])
@pytest.mark.parametrize("single", [0, 1, None])
def test_bounds_and_values_have_one_type(kinds: tuple[str, str, str], single: int | None) -> None:
    results = []
    for library in (ad, torch):
        x, low, high = (library.tensor([0.0, 1.0, 1.0]).to(getattr(library, kind)) for kind in kinds)
        low, high = low[0] if single == 0 else low, high[1] if single == 1 else high
        found = library.clamp(x, low, high)
        results.append((str(found.dtype).rpartition(".")[2], found.tolist()))
    assert results[0] == results[1]
