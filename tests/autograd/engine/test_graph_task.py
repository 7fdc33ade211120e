"""What a backward pass is known to run before it begins: the library's rules alone, or something of the user's too."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd.engine.graph_task import runs_user_code


class Double(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g


def hook_on_result(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g)
    return y


def hook_on_leaf(x: Any) -> Any:
    x.register_hook(lambda g: g)
    return x


def hook_after_accumulation(x: Any) -> Any:
    x.register_post_accumulate_grad_hook(lambda leaf: None)
    return x


def hook_on_node(x: Any) -> Any:
    y = x.exp()
    y.grad_fn.register_hook(lambda given, made: None)
    return y


def packed_values(x: Any) -> Any:
    with ad.autograd.graph.saved_tensors_hooks(lambda value: value, lambda value: value):
        return x.sin()


@pytest.mark.parametrize(
    "build", [hook_on_result, hook_on_leaf, hook_after_accumulation, hook_on_node, packed_values, Double.apply]
)
def test_a_pass_with_hooks_or_functions_runs_user_code(build: Any) -> None:
    x = ad.ones(3, requires_grad=True)
    assert runs_user_code([build(x).cos().sum().node])


def test_a_pass_of_ops_alone_runs_none() -> None:
    x, layer = ad.ones(3, requires_grad=True), ad.nn.Linear(3, 2)
    assert not runs_user_code([(layer(x).tanh() + x.sum()).sum().node])


@pytest.mark.parametrize("build", [hook_on_result, hook_on_leaf, packed_values, Double.apply])
def test_what_a_hook_counts_is_counted_by_each_compiled_call(build: Any) -> None:
    pytest.importorskip("llvmlite")
    seen = {"calls": 0}

    def count(g: Any) -> Any:
        seen["calls"] += 1
        return g

    @ad.compile
    def step(x: Any) -> Any:
        y = x.clone().requires_grad_()
        z = build(y)
        z.register_hook(count)
        z.exp().sum().backward()
        return y.grad

    for calls in range(1, 4):
        step(ad.ones(3))
        assert seen["calls"] == calls
