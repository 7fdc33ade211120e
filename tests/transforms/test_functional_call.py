"""`functional_call` and `stack_module_state`: modules as functions of their tensors, against `torch.func`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises

import adjoint as ad
from adjoint import func, nn
from adjoint.nn import functional as F

torch = pytest.importorskip("torch")
X = np.random.default_rng(0).random((5, 3))


class Tied(nn.Module):
    """One parameter under two names, and a buffer that the call moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(ad.ones(3))
        self.second = self.first
        self.register_buffer("calls", ad.zeros(()))

    def forward(self, x: Any) -> Any:
        self.calls = self.calls + 1
        return x + self.first + self.second * 10


class TorchTied(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Parameter(torch.ones(3))
        self.second = self.first
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.calls = self.calls + 1
        return x + self.first + self.second * 10


CALLS: dict[str, Callable[..., Any]] = {
    "all": lambda L, C, m: C(m, {"first": L.zeros(3), "calls": L.ones(())}, L.ones(3)),
    "tied by the other name": lambda L, C, m: C(m, {"second": L.zeros(3)}, (L.ones(3),)),
    "untied": lambda L, C, m: C(m, {"second": L.zeros(3)}, L.ones(3), tie_weights=False),
    "both names": lambda L, C, m: C(m, dict.fromkeys(("first", "second"), L.zeros(3)), L.ones(3)),
    "none": lambda L, C, m: C(m, {}, (), {"x": L.ones(3)}),
    "several dicts": lambda L, C, m: C(m, [{"first": L.zeros(3)}, {"calls": L.ones(())}], L.ones(3)),
    "strict": lambda L, C, m: C(m, {"first": L.zeros(3), "calls": L.ones(())}, L.ones(3), strict=True),
}
REFUSED: dict[str, Callable[..., Any]] = {
    "two values": lambda L, C, m: C(m, {"first": L.zeros(3), "second": L.ones(3)}, L.ones(3)),
    "twice": lambda L, C, m: C(m, [{"first": L.zeros(3)}, {"first": L.ones(3)}], L.ones(3)),
    "not dicts": lambda L, C, m: C(m, [1], L.ones(3)),
    "no dict": lambda L, C, m: C(m, 1, L.ones(3)),
    "missing": lambda L, C, m: C(m, {"first": L.zeros(3)}, L.ones(3), strict=True),
    "unexpected": lambda L, C, m: C(m, {"third": L.zeros(3)}, L.ones(3), strict=True),
    "no tensor": lambda L, C, m: C(m, {"first": 1}, L.ones(3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str) -> None:
    ours, theirs = Tied(), TorchTied()
    out = CALLS[name](ad, func.functional_call, ours)
    expected = CALLS[name](torch, torch.func.functional_call, theirs)
    np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy())
    assert out.requires_grad == expected.requires_grad
    assert ours.first is ours.second
    assert ours.first.tolist() == [1, 1, 1]
    assert ours.calls.item() == theirs.calls.item()


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    module = Tied()
    with pytest.raises((RuntimeError, ValueError, TypeError)) as theirs:
        REFUSED[name](torch, torch.func.functional_call, TorchTied())
    with pytest.raises(type(theirs.value)) as ours:
        REFUSED[name](ad, func.functional_call, module)
    assert str(ours.value).replace("Tied", "TorchTied").replace("adjoint", "torch") == str(theirs.value)
    assert module.first.tolist() == [1, 1, 1]


def test_buffers_come_back_in_the_dict() -> None:
    module, given = Tied(), {"calls": ad.zeros(())}
    func.functional_call(module, given, ad.ones(3))
    assert given["calls"].item() == 1
    assert module.calls.item() == 0


def test_the_module_is_put_back_after_an_error() -> None:
    module = nn.Linear(3, 2)
    before = module.weight
    raises(RuntimeError, None, lambda: func.functional_call(module, {"weight": ad.zeros(2, 4)}, ad.ones(5, 3)))
    assert module.weight is before


def test_dotted_names_and_gradients() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, 2)))
    parameters = dict(module.named_parameters())
    x = ad.tensor(X.astype(np.float32))
    slopes = func.grad(lambda p: func.functional_call(module, p, x).square().sum())(parameters)
    module(x).square().sum().backward()
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(slopes[name].detach().numpy(), parameter.grad.numpy(), rtol=1e-5)


def test_gradients_of_each_example() -> None:
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3))
    parameters = {name: p.detach() for name, p in module.named_parameters()}
    x, t = ad.randn(4, 1, 6, 6), ad.tensor([0, 2, 1, 2])

    def loss(p: Any, x: Any, t: Any) -> Any:
        return F.cross_entropy(func.functional_call(module, p, (x[None],)), t[None])

    each = ad.vmap(func.grad(loss), in_dims=(None, 0, 0))(parameters, x, t)
    for i in range(4):
        alone = func.grad(loss)(parameters, x[i], t[i])
        for name, slope in alone.items():
            np.testing.assert_allclose(each[name][i].numpy(), slope.numpy(), rtol=1e-4, atol=1e-6)


def test_an_ensemble() -> None:
    models = [nn.BatchNorm1d(3).eval() for _ in range(3)]
    for i, model in enumerate(models):
        model.running_mean += i
    parameters, buffers = func.stack_module_state(models)
    assert parameters["weight"].is_leaf
    assert parameters["weight"].requires_grad
    assert not buffers["running_mean"].requires_grad
    x = ad.tensor(X.astype(np.float32))
    out = ad.vmap(lambda p, b: func.functional_call(models[0], (p, b), (x,)))(parameters, buffers)
    np.testing.assert_allclose(out.detach().numpy(), np.stack([m(x).detach().numpy() for m in models]), rtol=1e-6)


def test_what_cannot_be_stacked() -> None:
    raises(RuntimeError, "Expected at least one model, got 0", lambda: func.stack_module_state([]))
    with pytest.raises(RuntimeError, match="to have the same training/eval mode"):
        func.stack_module_state([nn.Linear(2, 2), nn.Linear(2, 2).eval()])
    raises(RuntimeError, "to be of the same class", lambda: func.stack_module_state([nn.Linear(2, 2), nn.ReLU()]))
    frozen = nn.Linear(2, 2)
    frozen.weight.requires_grad_(False)
    with pytest.raises(RuntimeError, match=r"Expected weight from each model to have the same \.requires_grad"):
        func.stack_module_state([nn.Linear(2, 2), frozen])


def test_a_block_in_which_a_module_has_other_parameters() -> None:
    model = nn.Linear(2, 1)
    own, given = model.weight, {"weight": ad.ones(1, 2), "bias": ad.zeros(1)}
    with nn.utils.stateless._reparametrize_module(model, given):
        assert model.weight is given["weight"]
        assert model(ad.ones(2)).item() == 2
    assert model.weight is own
    with pytest.raises(RuntimeError, match="Missing"):
        nn.utils.stateless._reparametrize_module(model, {"weight": own}, strict=True).__enter__()
