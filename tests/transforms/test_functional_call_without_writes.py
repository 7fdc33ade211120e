"""Modules without running statistics, and `functionalize`."""

from __future__ import annotations

import pytest

import adjoint as ad
from adjoint import func, nn


def test_batch_norms_lose_their_statistics() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Sequential(nn.BatchNorm2d(2, affine=False)), nn.Linear(3, 3))
    assert func.replace_all_batch_norm_modules_(model) is model
    for norm in (model[0], model[1][0]):
        assert norm.running_mean is norm.running_var is norm.num_batches_tracked is None
        assert not norm.track_running_stats
    assert list(model.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_then_they_can_be_mapped_over() -> None:
    norm = func.replace_all_batch_norm_modules_(nn.BatchNorm1d(3)).train()
    x = ad.arange(24, dtype=ad.float64).view(2, 4, 3)
    mapped = func.vmap(norm.double())(x)
    assert ad.allclose(mapped[1], norm(x[1]))


def test_functionalized_is_the_same_function() -> None:
    def twice(x: ad.Tensor) -> ad.Tensor:
        y = x.clone()
        return y.add_(x)

    x = ad.tensor([1.0, 2.0])
    assert func.functionalize(twice)(x).tolist() == [2.0, 4.0]
    assert func.functionalize(twice, remove="mutations_and_views")(x).tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="invalid argument for remove=all"):
        func.functionalize(twice, remove="all")
