"""Steps that set `requires_grad` of tensors from before them: each call does, and is served by the same program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn


def differentiate_input(net: nn.Module, w: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
    x.requires_grad_(True)
    value = net(x).pow(2).mean()
    (slope,) = ad.autograd.grad(value, x, create_graph=True)
    (value + slope.pow(2).sum()).backward()
    return value.detach()


def ask_late(net: nn.Module, w: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
    unseen = x * 2
    x.requires_grad = True
    value = unseen.sum() + net(x).sum()
    value.backward()
    return value.detach()


def ask_by_a_decision(net: nn.Module, w: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
    x.requires_grad_()
    value = net(x).sum()
    if value.item() > 1e6:
        return value * 2
    return value * (w.sum() + x.sum())


def return_with_history(net: nn.Module, w: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
    return net(x.requires_grad_() * w).pow(2).sum()


def ask_captured(net: nn.Module, w: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
    unseen = (w * x).sum()
    w.requires_grad_(True)
    return (w * x).pow(2).sum() + unseen


def freeze_meanwhile(net: nn.Module, w: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
    net.requires_grad_(False)
    frozen = net(x).sum()
    net.requires_grad_(True)
    return frozen * net.weight.sum()


def freeze(net: nn.Module, w: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
    for p in net.parameters():
        p.requires_grad_(False)
    return net(x).sum() + w.sum()


def turn_over(net: nn.Module, w: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
    net.bias.requires_grad = not net.bias.requires_grad
    return net(x).pow(2).sum()


def ask_and_take_back(net: nn.Module, w: ad.Tensor, x: ad.Tensor) -> ad.Tensor:
    doubled = x.requires_grad_(True) * 2
    x.requires_grad_(False)
    return doubled.sum() * x.sum()


STEPS = (
    differentiate_input, ask_late, ask_by_a_decision, return_with_history, ask_captured, freeze_meanwhile, freeze,
    turn_over, ask_and_take_back,
)  # fmt: skip


def run(step: Callable[..., Any], same_input: bool, compiled: bool) -> tuple[list[Any], int]:
    """What four calls leave, and how often the step was compiled."""
    ad.manual_seed(0)
    net, w, kept = nn.Linear(2, 1).double(), ad.ones(3, 2, dtype=ad.float64), ad.full((3, 2), 0.5, dtype=ad.float64)
    call = ad.compile(step) if compiled else step
    found: list[Any] = []
    for i in range(4):
        x = kept if same_input else kept + i
        result = call(net, w, x)
        for _ in range(2):
            held = (x, w, net.weight, net.bias)
            found += [result.tolist(), *(t.requires_grad for t in (result, *held)), *(t.is_leaf for t in held)]
            found += [None if t.grad is None else t.grad.tolist() for t in held]
            if not result.requires_grad:
                break
            result.backward()
            result = result.detach()
    return found, call.compilations if compiled else 0


@pytest.mark.parametrize("same_input", [False, True], ids=["new inputs", "one input"])
@pytest.mark.parametrize("step", STEPS)
def test_flags_are_set_by_each_call(step: Callable[..., Any], same_input: bool) -> None:
    expected, _ = run(step, same_input, compiled=False)
    found, compilations = run(step, same_input, compiled=True)
    assert len(found) == len(expected)
    for mine, eager in zip(found, expected, strict=True):
        if mine != eager:
            np.testing.assert_allclose(mine, eager, rtol=1e-12)
    assert compilations <= 2  # without gradients, and with them
