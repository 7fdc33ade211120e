"""Backward passes within backward passes, and what is to be done when one has ended."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.checks import raises
from tests.support.threads import in_another_thread

import adjoint as ad
from adjoint.autograd.engine.engine import queue_callback


class Deeper(ad.autograd.Function):
    """The identity, whose backward runs a backward pass of its own, `left` times within each other.

    The innermost raises if it `fails`.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, left: int, fails: bool = False) -> Any:
        ctx.left, ctx.fails = left, fails
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        if ctx.left:
            with ad.enable_grad():
                x = g.detach().requires_grad_()
                Deeper.apply(x, ctx.left - 1, ctx.fails).sum().backward()
            return x.grad * 1.0, None, None
        if ctx.fails:
            raise KeyError("deep")
        return g, None, None


@pytest.mark.parametrize("depth", [1, 39, 41, pytest.param(1000, marks=pytest.mark.needs_threads)])
def test_passes_nest_as_deep_as_asked(depth: int) -> None:
    x = ad.ones(2, requires_grad=True)
    Deeper.apply(x, depth, False).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.needs_threads
def test_an_error_deep_inside_comes_out() -> None:
    x = ad.ones(2, requires_grad=True)
    raises(KeyError, "deep", Deeper.apply(x, 100, True).sum().backward)
    assert x.grad is None
    assert ad.is_grad_enabled()


@pytest.mark.needs_threads
def test_nested_passes_keep_the_modes_of_their_thread() -> None:
    seen = []

    class Looking(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, left: int) -> Any:
            ctx.left = left
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(ad.is_grad_enabled())
            if ctx.left:
                with ad.enable_grad():
                    Looking.apply(g.detach().requires_grad_(), ctx.left - 1).sum().backward()
            return g, None

    Looking.apply(ad.ones(1, requires_grad=True), 90).sum().backward()
    assert seen == [False] * 91


def test_callbacks_run_when_the_pass_has_ended_in_order() -> None:
    x = ad.ones(2, requires_grad=True)
    log: list[Any] = []

    def hook(g: Any) -> None:
        queue_callback(lambda: (log.append("first"), queue_callback(lambda: log.append("added")))[0])
        queue_callback(lambda: log.append(x.grad is not None))

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    assert log == ["first", True, "added"]


def test_a_nested_pass_has_callbacks_of_its_own() -> None:
    log: list[str] = []

    class Inner(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            queue_callback(lambda: log.append("outer"))
            with ad.enable_grad():
                x = g.detach().requires_grad_()
                y = x * 2
                y.register_hook(lambda g: queue_callback(lambda: log.append("inner")))
                y.sum().backward()
            return g

    Inner.apply(ad.ones(1, requires_grad=True)).sum().backward()
    assert log == ["inner", "outer"]


def test_callbacks_need_a_pass() -> None:
    raises(RuntimeError, "during backward pass", lambda: queue_callback(lambda: None))


@pytest.mark.needs_threads
def test_threads_have_passes_of_their_own() -> None:
    x = ad.ones(1, requires_grad=True)
    y = x * 2
    errors: list[Exception] = []

    def elsewhere() -> None:
        try:
            queue_callback(lambda: None)
        except RuntimeError as error:
            errors.append(error)

    def hook(g: Any) -> None:
        in_another_thread(elsewhere)

    y.register_hook(hook)
    y.sum().backward()
    assert len(errors) == 1
