"""Gradients of every example, beside those of batches of one, and PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest
from adjoint.nn.utils._per_sample_grad import call_for_per_sample_grads
from tests.support.checks import raises

import adjoint as ad
from adjoint import nn

MODELS = {
    "linear": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), (5, 3)),
    "convolution": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU()), (4, 2, 6, 6)),
    "layer norm": (lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)), (5, 2, 3)),
    "recurrent": (lambda: Last(3, 4), (5, 6, 3)),
}


class Last(nn.Module):
    """The last output of an LSTM."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.lstm(x)[0][:, -1]


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("name", MODELS)
def test_each_example_has_the_gradient_of_a_batch_of_one(name: str, reduction: str) -> None:
    make, shape = MODELS[name]
    ad.manual_seed(0)
    model, x = make(), ad.randn(*shape)
    out = call_for_per_sample_grads(model, loss_reduction=reduction)(x)
    assert ad.allclose(out, model(x), atol=1e-6)
    losses = (out**2).flatten(1).sum(1)
    (losses.mean() if reduction == "mean" else losses.sum()).backward()
    assert all(p.grad is None for p in model.parameters())
    for i in range(shape[0]):
        model.zero_grad()
        (model(x[i : i + 1]) ** 2).sum().backward()
        for p in model.parameters():
            assert ad.allclose(p.grad_sample[i], p.grad, atol=1e-5)


def test_the_batch_may_be_the_second_dimension_and_of_some_tensors_only() -> None:
    model = nn.Linear(3, 2)
    x = ad.randn(7, 4, 3)
    out = call_for_per_sample_grads(model, batch_size=4, batch_first=False)(x)
    assert ad.allclose(out, model(x), atol=1e-6)
    out.sum().backward()
    assert model.weight.grad_sample.shape == (4, 2, 3)
    assert ad.allclose(model.weight.grad_sample[:, 0], x.sum(0), atol=1e-5)


def test_frozen_parameters_have_none_and_those_of_two_uses_the_sum() -> None:
    model = nn.Linear(3, 3)
    model.bias.requires_grad_(False)
    twice = nn.Sequential(model, model)
    x = ad.ones(2, 3)
    call_for_per_sample_grads(twice)(x).sum().backward()
    whole = nn.Linear(3, 3)
    whole.load_state_dict(model.state_dict())
    nn.Sequential(whole, whole)(x).sum().backward()
    assert not hasattr(model.bias, "grad_sample")
    assert ad.allclose(model.weight.grad_sample.sum(0), whole.weight.grad, atol=1e-6)


def test_what_cannot_be_is_refused() -> None:
    model = nn.Bilinear(2, 3, 4)
    raises(RuntimeError, "to be sum or mean, got none", lambda: call_for_per_sample_grads(model, loss_reduction="none"))
    with pytest.raises(RuntimeError, match=r"must be nn\.Module, got int"):
        call_for_per_sample_grads(1)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="None or an integer, got float"):
        call_for_per_sample_grads(model, batch_size=2.0)  # type: ignore[arg-type]
    raises(RuntimeError, "must be positive, got 0", lambda: call_for_per_sample_grads(model, batch_size=0))
    with pytest.raises(RuntimeError, match="one input with batch size 5 and one with batch size 4"):
        call_for_per_sample_grads(model)(ad.ones(5, 2), ad.ones(4, 3))
    raises(RuntimeError, "Unable to find a tensor", lambda: call_for_per_sample_grads(model)(1))
    model.weight.grad_sample = ad.ones(1)
    raises(RuntimeError, "clear out the grad_sample", lambda: call_for_per_sample_grads(model))


def test_the_numbers_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("torch.nn.utils._per_sample_grad").call_for_per_sample_grads
    torch.manual_seed(0)
    peer = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))
    model = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 3), nn.LayerNorm(3))
    model.load_state_dict({name: ad.tensor(value.numpy()) for name, value in peer.state_dict().items()})
    at = [[1, 2, 2], [0, 8, 1]]
    (theirs(peer, loss_reduction="mean")(torch.tensor(at)) ** 3).sum().backward()
    (call_for_per_sample_grads(model, loss_reduction="mean")(ad.tensor(at)) ** 3).sum().backward()
    for mine, its in zip(model.parameters(), peer.parameters(), strict=True):
        assert ad.allclose(mine.grad_sample, ad.tensor(its.grad_sample.numpy()), atol=1e-5)
