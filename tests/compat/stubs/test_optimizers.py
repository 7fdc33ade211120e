"""Optimizers as functions of lists do what the classes do, in place."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn, optim
from adjoint.compat.stubs import optimizers as functional

MOMENTS = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1, "lr": 0.1}
# name of the module and function, the class, options of the function, and those of the class
FORMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "adadelta": ("Adadelta", {"rho": 0.9, "eps": 1e-6, "weight_decay": 0.1, "lr": 0.1, "maximize": True}, {}),
    "adagrad": ("Adagrad", {"lr_decay": 0.1, "eps": 1e-8, "weight_decay": 0.1, "lr": 0.1, "maximize": False}, {}),
    "adam": ("Adam", {**MOMENTS, "amsgrad": True, "maximize": False}, {"betas": (0.9, 0.99)}),
    "adamax": ("Adamax", MOMENTS, {"betas": (0.9, 0.99)}),
    "adamw": ("AdamW", {**MOMENTS, "amsgrad": False, "maximize": False}, {"betas": (0.9, 0.99)}),
    "asgd": ("ASGD", {"lambd": 1e-4, "lr": 0.1, "t0": 0.0, "alpha": 0.75, "weight_decay": 0.1}, {}),
    "nadam": ("NAdam", {**MOMENTS, "momentum_decay": 4e-3}, {"betas": (0.9, 0.99)}),
    "radam": ("RAdam", MOMENTS, {"betas": (0.9, 0.99)}),
    "rmsprop": (
        "RMSprop",
        {"alpha": 0.9, "eps": 1e-8, "weight_decay": 0.1, "momentum": 0.9, "centered": True, "lr": 0.1},
        {},
    ),
    "rprop": (
        "Rprop",
        {"step_size_min": 1e-6, "step_size_max": 50.0, "etaminus": 0.5, "etaplus": 1.2},
        {"step_sizes": (1e-6, 50.0), "etas": (0.5, 1.2)},
    ),
    "sgd": (
        "SGD",
        {"momentum": 0.9, "dampening": 0.0, "nesterov": False, "weight_decay": 0.1, "maximize": False, "lr": 0.1},
        {},
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_two_steps_are_those_of_the_class(name: str) -> None:
    kind, options, renamed = FORMS[name]
    start = [ad.linspace(0.1, 1, 3, dtype=ad.float64), ad.linspace(-1, 1, 4, dtype=ad.float64)]
    grads = [p * 0.5 - 0.2 for p in start]
    params = [nn.Parameter(p.clone()) for p in start]
    names = {*options} - {"beta1", "beta2", "etaminus", "etaplus", "step_size_min", "step_size_max"}
    optimizer = getattr(optim, kind)(params, **{key: options[key] for key in names}, **renamed)
    values = [p.clone() for p in start]
    lists: list[list[Any]] = []
    function = getattr(import_module(f"adjoint.optim.{name}"), name)
    for step in range(3):
        for p, g in zip(params, grads, strict=True):
            p.grad = g.clone()
        optimizer.step()
        if step == 0:  # the function goes on from the state after one step
            values = [p.detach().clone() for p in params]
            entries = function.__self__.entries
            states = [optimizer.state[p] for p in params]
            lists = [[s[entry].clone() for s in states if entry in s] for entry in entries]
        else:
            function(values, [g.clone() for g in grads], *lists, **options)
    for ours, theirs in zip(values, params, strict=True):
        assert ours.tolist() == theirs.tolist()
    for entry, held in zip(function.__self__.entries, lists, strict=True):
        for value, p in zip(held, params, strict=bool(held)):
            assert value.tolist() == optimizer.state[p][entry].tolist()


def test_a_first_step_fills_the_list_and_no_gradient_leaves_a_parameter() -> None:
    params, buffers = [ad.ones(2), ad.ones(2)], [None, None]
    functional.sgd(
        params, [ad.ones(2), None], buffers, weight_decay=0, momentum=0.9, lr=0.5, dampening=0.0, nesterov=False,
        maximize=False,
    )  # fmt: skip
    assert [p.tolist() for p in params] == [[0.5, 0.5], [1.0, 1.0]]
    assert buffers[0].tolist() == [1.0, 1.0]  # type: ignore[attr-defined]
    assert buffers[1] is None
    with pytest.raises(TypeError, match="expected 1 lists after params and grads"):
        functional.sgd(params, [None, None], lr=0.1)
    with pytest.raises(NotImplementedError, match="GradScaler"):
        functional.sgd(params, [None, None], buffers, grad_scale=ad.ones(1))


def test_an_optimizer_of_a_program_is_built_on_the_private_functions() -> None:
    from adjoint.optim.optimizer import (
        Optimizer,
        _default_to_fused_or_foreach,
        _get_value,
        _use_grad_for_differentiable,
    )

    class Descent(Optimizer):
        def __init__(self, params: Any, lr: float, differentiable: bool = False) -> None:
            super().__init__(params, {"lr": lr, "differentiable": differentiable})

        @_use_grad_for_differentiable
        def step(self, closure: Any = None) -> Any:
            assert ad.is_grad_enabled() == self.defaults["differentiable"]
            for group in self.param_groups:
                assert _default_to_fused_or_foreach(group["params"], False) == (False, False)
                for p in group["params"]:
                    p.add_(p.grad, alpha=-_get_value(group["lr"]))

    p = nn.Parameter(ad.ones(2))
    p.sum().backward()
    Descent([p], 0.5).step()
    assert p.tolist() == [0.5, 0.5]
