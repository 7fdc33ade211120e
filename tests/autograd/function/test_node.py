"""The backward of a Function: what it is given, what it must return, and what becomes of its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.checks import function, leaf, raises

import adjoint as ad
from adjoint.autograd import Function, grad
from adjoint.autograd.function import once_differentiable

f64 = ad.float64


def test_several_outputs_as_targets() -> None:
    f = function(lambda ctx, x: (x * 2, x * 3), lambda ctx, a, b: a * 2 + b * 3)
    x = leaf([1.0])
    a, b = f.apply(x)
    ga, gb, gx = grad(a * b, [a, b, x])
    assert (ga.item(), gb.item(), gx.item()) == (3.0, 2.0, 12.0)


@pytest.mark.parametrize("materialize", [True, False])
def test_set_materialize_grads(materialize: bool) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(materialize)
        return x * 2, x * 3

    def backward(ctx: Any, a: Any, b: Any) -> Any:
        seen.append(b)
        return a * 2

    x = leaf([1.0, 2.0])
    a, _ = function(forward, backward).apply(x)
    a.sum().backward()
    if materialize:
        np.testing.assert_array_equal(seen[0].numpy(), [0.0, 0.0])
    else:
        assert seen == [None]


def test_outputs_that_are_no_tensors() -> None:
    seen: list[Any] = []

    def backward(ctx: Any, *gs: Any) -> Any:
        seen.extend(gs)
        return gs[0] * 2

    f = function(lambda ctx, x: (x * 2, "text", x.to(ad.int64)), backward)
    x = leaf([1.0, 2.0])
    y, text, whole = f.apply(x)
    assert (text, whole.requires_grad) == ("text", False)
    y.sum().backward()
    assert seen[1] is None
    assert (seen[2].dtype, seen[2].tolist()) == (ad.int64, [0, 0])


def test_mark_non_differentiable() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        y, order = x * 2, x * 0
        ctx.mark_non_differentiable(order)
        return y, order

    x = leaf([1.0])
    y, order = function(forward, lambda ctx, g, _: g * 2).apply(x)
    assert (y.requires_grad, order.requires_grad) == (True, False)
    y.backward()
    assert x.grad.item() == 2.0


def test_once_differentiable() -> None:
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        assert not ad.is_grad_enabled()
        return g * 2

    f = function(lambda ctx, x: x * 2, backward)
    x = leaf([1.0, 2.0])
    (f.apply(x) ** 2).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [8.0, 16.0])
    (g,) = grad((f.apply(x) ** 2).sum(), x, create_graph=True)
    assert g.requires_grad
    assert g.grad_fn.name() == "Error"
    assert [node.name() for node, _ in g.grad_fn.next_functions] == ["AccumulateGrad"]
    assert g.grad_fn.site.file == __file__
    raises(RuntimeError, "differentiate twice a function that was marked with @once_differentiable", g.sum().backward)


@pytest.mark.parametrize(
    ("backward", "error", "message"),
    [
        (lambda ctx, g: g, RuntimeError, r"MadeBackward returned an incorrect number of gradients \(expected 2, got 1"),
        (lambda ctx, g: (g, None, g), RuntimeError, r"incorrect number of gradients \(expected 2, got 3\)"),
        (lambda ctx, g: (g, g), RuntimeError, "returned a gradient different than None at position 2"),
        (lambda ctx, g: ("a", None), RuntimeError, r"expected Variable or None \(got str\)"),
        (lambda ctx, g: (g.to(ad.complex128), None), RuntimeError, "an invalid gradient at index 0 - expected a real"),
        (lambda ctx, g: (g[:1].reshape(1, 1).expand(2, 5), None), RuntimeError, "an invalid gradient at index 0"),
    ],
)
def test_what_backward_must_return(backward: Any, error: type[Exception], message: str) -> None:
    x = leaf([1.0, 2.0])
    y = function(lambda ctx, x, k: x * k, backward).apply(x, 2.0).sum()
    raises(error, message, y.backward)
    assert x.grad is None


def test_surplus_nones_are_ignored() -> None:
    x = leaf([1.0])
    function(lambda ctx, x: x * 2, lambda ctx, g: (g * 2, None, None)).apply(x).backward()
    assert x.grad.item() == 2.0


def test_a_gradient_is_summed_to_a_broadcast_input() -> None:
    x = leaf([1.0])
    function(lambda ctx, x: x + ad.zeros(3, dtype=f64), lambda ctx, g: g).apply(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [3.0])


def test_none_means_no_gradient() -> None:
    stop = function(lambda ctx, x: x * 1, lambda ctx, g: None)
    x = leaf([1.0, 2.0])
    stop.apply(x * 2).sum().backward()
    assert x.grad is None
    seen: list[Any] = []
    through = function(lambda ctx, x: x * 1, lambda ctx, g: seen.append(g.tolist()) or g)
    stop.apply(through.apply(x)).sum().backward()
    assert seen == [[0.0, 0.0]]  # a Function runs all the same, as in PyTorch
    (stop.apply(x) + x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, 1.0])


def test_vjp_is_another_name_for_backward() -> None:
    def double(ctx: Any, x: Any) -> Any:
        return x * 2

    x = leaf([1.0])
    named = {"forward": staticmethod(double), "vjp": staticmethod(lambda ctx, g: g * 2)}
    type("Vjp", (Function,), named).apply(x).backward()  # type: ignore[attr-defined]
    assert x.grad.item() == 2.0
    both = function(double, lambda ctx, g: g, vjp=lambda ctx, g: g).apply(x)
    raises(RuntimeError, "Implementing both 'backward' and 'vjp'", both.backward)


def test_a_boxed_backward_may_let_go_of_gradients_as_it_goes() -> None:
    given: list[Any] = []

    class Boxed(Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, grads: Any) -> Any:
            given.append(type(grads))
            return grads.pop() * 3 + grads.pop() * 2

    x = leaf([1.0])
    a, b = Boxed.apply(x)
    (a + b).backward()
    assert given == [list]
    assert x.grad.item() == 5.0


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_exceptions(where: str, error: type[BaseException]) -> None:
    failing = [True]

    def step(name: str, value: Any) -> Any:
        if failing[0] and name == where:
            raise error("in a Function")
        return value

    f = function(lambda ctx, x: step("forward", x * 3), lambda ctx, g: step("backward", g * 3))
    x, w = leaf([0.1]), leaf([0.7])

    def graph() -> Any:
        return ad.sin(f.apply(x * 1.0) + w) * w

    if where == "backward":
        y = graph()
    raises(error, "in a Function", lambda: graph() if where == "forward" else y.backward(retain_graph=True))
    assert ad.is_grad_enabled()
    assert (x.grad, w.grad) == (None, None)
    failing[0] = False
    if where == "forward":
        y = graph()
    y.backward(retain_graph=True)
    z = graph()
    gx, gw = grad(z, [x, w])
    assert (x.grad.numpy().tobytes(), w.grad.numpy().tobytes()) == (gx.numpy().tobytes(), gw.numpy().tobytes())


def test_node_hooks_on_a_function() -> None:
    f = function(lambda ctx, x: (x * 2, x * 3), lambda ctx, a, b: a * 2 + b * 3)
    x = leaf([1.0])
    a, b = f.apply(x)
    calls: list[Any] = []
    a.grad_fn.register_prehook(lambda go: calls.append([g.item() for g in go]) or (go[0] * 10, go[1]))
    a.grad_fn.register_hook(lambda gi, go: calls.append([g.item() for g in gi]) or (gi[0] + 1,))
    (a + b).backward()
    assert calls == [[1.0, 1.0], [23.0]]
    assert x.grad.item() == 24.0
