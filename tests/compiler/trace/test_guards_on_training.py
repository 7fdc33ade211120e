"""A training step, compiled, while everything around it changes: each next call does what eager would."""

from __future__ import annotations

import collections
import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

pytest.importorskip("llvmlite")

Change = Callable[[Any], Any]


class Setting:
    """What a step uses: model, optimizer, and whatever else its user keeps."""

    model: Any
    optimizer: Any

    def __init__(self, **kept: Any) -> None:
        self.__dict__.update(kept)


Made = tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], Any]


def classified(i: int) -> tuple[Any, Any]:
    """A batch of the i-th call."""
    ad.manual_seed(i)
    return ad.randn(6, 5), ad.randint(0, 3, (6,))


def training(optimizer: Callable[[Any], Any], normalized: bool) -> Made:
    """A classifier and its step."""
    ad.manual_seed(0)
    layers = [nn.Linear(5, 8), *([nn.BatchNorm1d(8)] if normalized else []), nn.ReLU(), nn.Dropout(0.2)]
    model = nn.Sequential(*layers, nn.Linear(8, 3))
    s = Setting(model=model, optimizer=optimizer(model.parameters()), scale=1.0, loss=F.cross_entropy, handle=None)

    def step(x: Any, y: Any) -> Any:
        s.optimizer.zero_grad()
        loss = s.loss(s.model(x), y) * s.scale
        loss.backward()
        s.optimizer.step()
        return loss

    return step, classified, s


def momentum() -> Made:
    """With batch normalization and SGD."""
    return training(lambda p: optim.SGD(p, lr=0.05, momentum=0.9), True)


def adam() -> Made:
    """With AdamW; without the normalization, before which a bias has a gradient of mere rounding."""
    return training(lambda p: optim.AdamW(p, lr=0.01), False)


def accumulating() -> Made:
    """Gradients of several calls, and a counter that decides."""
    ad.manual_seed(0)
    model = nn.Linear(5, 3)
    s = Setting(model=model, optimizer=optim.SGD(model.parameters(), lr=0.1), n=0, every=2)

    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(s.model(x), y)
        loss.backward()
        s.n += 1
        if s.n % s.every == 0:
            s.optimizer.step()
            s.optimizer.zero_grad()
        return loss

    return step, classified, s


def scheduled() -> Made:
    """Learning rates that the step sets, each call others, and a book of the losses."""
    ad.manual_seed(0)
    model = nn.Linear(5, 3)
    groups = [{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "lr": 0.2}]
    s = Setting(model=model, optimizer=optim.SGD(groups, momentum=0.9), n=0, decay=0.9)

    def step(x: Any, y: Any) -> Any:
        s.n += 1
        for group in s.optimizer.param_groups:
            group["lr"] = 0.1 * s.decay**s.n
        for i, group in enumerate(s.optimizer.param_groups):
            group["lr"] = group["lr"] / (i + 1)
        loss = F.cross_entropy(s.model(x), y)
        s.optimizer.zero_grad()
        loss.backward()
        s.optimizer.step()
        return loss

    return step, classified, s


def averaging() -> Made:
    """An exponential average of the parameters, and the last losses in a deque."""
    ad.manual_seed(0)
    model = nn.Linear(5, 3)
    average = {k: v.clone() for k, v in model.state_dict().items()}
    s = Setting(model=model, optimizer=optim.Adam(model.parameters(), lr=0.1), average=average, decay=0.9)
    s.last = collections.deque(maxlen=3)

    def step(x: Any, y: Any) -> Any:
        s.optimizer.zero_grad()
        loss = F.cross_entropy(s.model(x), y)
        loss.backward()
        s.optimizer.step()
        with ad.no_grad():
            for name, value in s.model.state_dict().items():
                s.average[name].mul_(s.decay).add_(value, alpha=1 - s.decay)
        s.last.append(loss.detach())
        return loss, s.average["weight"].clone(), sum(s.last) / len(s.last)

    return step, classified, s


def recurrent() -> Made:
    """A state that goes from call to call, alone and in a tuple."""
    ad.manual_seed(0)
    model = nn.Linear(8, 4)
    s = Setting(model=model, optimizer=optim.SGD(model.parameters(), lr=0.1), h=None, pair=(ad.zeros(1), ad.ones(1)))

    def step(x: Any, _: Any) -> Any:
        if s.h is None:
            s.h = ad.zeros(x.shape[0], 4)
        s.optimizer.zero_grad()
        h = s.h
        for _ in range(3):
            h = ad.tanh(s.model(ad.cat([x[:, :4], h], 1)))
        loss = h.square().mean()
        loss.backward()
        s.optimizer.step()
        s.h = h.detach()
        a, b = s.pair
        s.pair = (b, a + loss.detach())
        return loss, s.pair[1]

    return step, classified, s


def options(**given: Any) -> Change:
    """Options of the optimizer's group."""
    return lambda s: s.optimizer.param_groups[0].update(given)


def hooked(attach: Callable[[Any], Any]) -> list[Change]:
    """A hook attached, and taken off again."""

    def on(s: Any) -> None:
        s.handle = attach(s.model)

    return [on, lambda s: s.handle.remove()]


def new_parameter(s: Any) -> None:
    """A parameter replaced, and given to the optimizer."""
    ad.manual_seed(9)
    s.model[-1].weight = nn.Parameter(ad.randn(3, 8))
    s.optimizer.add_param_group({"params": [s.model[-1].weight]})


def halved(s: Any) -> None:
    """All parameters written in place."""
    with ad.no_grad():
        for p in s.model.parameters():
            p.mul_(0.5)


def no_gradients(s: Any) -> None:
    """No parameter has a gradient."""
    for p in s.model.parameters():
        p.grad = None


CASES: dict[str, tuple[Callable[[], Made], list[Change]]] = {
    "lr": (momentum, [options(lr=0.2), options(lr=0.0), options(lr=0.1)]),
    "scheduled": (scheduled, [options(momentum=0.5), lambda s: setattr(s, "decay", 0.5), options(weight_decay=0.1)]),
    "momentum": (momentum, [options(momentum=0.5), options(momentum=0.0), options(momentum=0.9)]),
    "weight_decay": (momentum, [options(weight_decay=0.1), options(weight_decay=0.0)]),
    "nesterov": (momentum, [options(nesterov=True)]),
    "maximize": (momentum, [options(maximize=True)]),
    "betas": (adam, [options(betas=(0.5, 0.9)), options(eps=1e-3), options(amsgrad=True), options(weight_decay=0.0)]),
    "training": (momentum, [lambda s: s.model.eval(), lambda s: s.model.train(), lambda s: s.model[3].eval()]),
    "dropout": (momentum, [lambda s: setattr(s.model[3], "p", 0.5), lambda s: setattr(s.model[3], "p", 0.0)]),
    "statistics": (
        momentum,
        [
            lambda s: setattr(s.model[1], "momentum", 0.5),
            lambda s: setattr(s.model[1], "momentum", None),
            lambda s: s.model[1].running_mean.fill_(2.0),
            lambda s: setattr(s.model[1], "running_var", ad.ones(8) * 3),
            lambda s: setattr(s.model[1], "track_running_stats", False),
        ],
    ),
    "frozen": (
        momentum,
        [
            lambda s: s.model[0].requires_grad_(False),
            lambda s: s.model[0].weight.requires_grad_(True),
            lambda s: s.model.requires_grad_(True),
        ],
    ),
    "scale": (
        momentum,
        [lambda s, v=v: setattr(s, "scale", v) for v in (2.0, 3.0, ad.tensor(0.5), ad.tensor(0.25), 1)],
    ),
    "loss": (
        momentum,
        [
            lambda s: setattr(s, "loss", functools.partial(F.cross_entropy, label_smoothing=0.1)),
            lambda s: setattr(s, "loss", nn.CrossEntropyLoss(reduction="sum")),
        ],
    ),
    "forward hook": (momentum, hooked(lambda m: m[0].register_forward_hook(lambda _, args, out: out * 0.5))),
    "pre hook": (momentum, hooked(lambda m: m.register_forward_pre_hook(lambda _, args: (args[0] * 2,)))),
    "backward hook": (momentum, hooked(lambda m: m[-1].register_full_backward_hook(lambda _, gi, go: (gi[0] * 2,)))),
    "tensor hook": (momentum, hooked(lambda m: m[0].weight.register_hook(lambda g: g * 0.1))),
    "accumulated": (
        momentum,
        hooked(lambda m: m[0].weight.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(0.5), None)[1])),
    ),
    "module": (momentum, [lambda s: s.model.__setitem__(2, nn.Tanh())]),
    "forward": (momentum, [lambda s: setattr(s.model[2], "forward", lambda x: x.clamp(min=-0.1))]),
    "parameter": (momentum, [new_parameter]),
    "values": (momentum, [halved, lambda s: setattr(s.model[0].bias, "data", ad.ones(8) * 0.3), halved]),
    "state": (momentum, [lambda s: s.model.load_state_dict({k: v * 1 for k, v in s.model.state_dict().items()})]),
    "optimizer's state": (adam, [lambda s: s.optimizer.load_state_dict(copy.deepcopy(s.optimizer.state_dict()))]),
    "optimizer": (adam, [lambda s: setattr(s, "optimizer", optim.SGD(s.model.parameters(), lr=0.01))]),
    "gradients": (momentum, [no_gradients]),
    "counter": (accumulating, [lambda s: setattr(s, "every", 3), lambda s: setattr(s, "n", 0)]),
    "average": (averaging, [lambda s: setattr(s, "decay", 0.5), lambda s: s.average.update(weight=ad.zeros(3, 5))]),
    "hidden": (
        recurrent,
        [
            lambda s: setattr(s, "h", None),
            lambda s: setattr(s, "h", ad.ones(6, 4)),
            lambda s: setattr(s, "pair", (ad.ones(1), ad.ones(1) * 2)),
        ],
    ),
}


def _arrays(result: Any) -> list[Any]:
    return [t.detach().numpy() for t in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("name", CASES)
def test_the_next_call_does_what_eager_would(name: str) -> None:
    make, changes = CASES[name]
    (ours, data, kept), (eager, _, twin) = make(), make()
    compiled, count = ad.compile(ours), 0

    def run(calls: int) -> None:
        nonlocal count
        for _ in range(calls):
            batch = data(count)
            ad.manual_seed(1000 + count)
            found = _arrays(compiled(*batch))
            ad.manual_seed(1000 + count)
            for a, b in zip(found, _arrays(eager(*batch)), strict=True):
                np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)
            count += 1

    run(4)
    for change in changes:
        change(kept)
        change(twin)
        run(3)
    for p, q in zip(kept.model.parameters(), twin.model.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=2e-4, atol=1e-5)
    assert compiled.compilations <= 3 + 2 * len(changes), "not a program for each call"


def test_gradients_of_arguments_are_those_of_the_tensors_that_each_call_brings() -> None:
    weight = ad.tensor([1.0, -2.0, 3.0])

    def step(x: Any) -> Any:
        loss = (x * weight).pow(2).sum()
        loss.backward()
        return loss

    compiled = ad.compile(step)
    for n in range(5):
        x = ad.full((3,), n + 1.0).requires_grad_()
        y = ad.full((3,), n + 1.0).requires_grad_()
        assert compiled(x).item() == step(y).item()
        assert x.grad.tolist() == y.grad.tolist()
    assert compiled.compilations == 1
    for calls in range(5):  # of one tensor, whose gradient grows
        if calls == 3:
            x.grad = y.grad = None
        compiled(x), step(y)
        assert x.grad.tolist() == y.grad.tolist()
    assert compiled.compilations <= 2
