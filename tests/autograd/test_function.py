"""`Function`: what PyTorch documents for user-written ops."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import Function, grad, gradcheck, gradgradcheck
from adjoint.autograd.function import once_differentiable

f64 = ad.float64


def leaf(values: Any) -> Any:
    return ad.tensor(values, dtype=f64, requires_grad=True)


class MySquare(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * g


def function(forward: Any, backward: Any, name: str = "Made", **more: Any) -> type[Function]:
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(name, (Function,), members | {k: staticmethod(v) for k, v in more.items()})


def test_4_21_my_square() -> None:
    x = leaf([3.0])
    y = MySquare.apply(x)
    assert y.item() == 9.0
    assert y.grad_fn.name() == "MySquareBackward"
    assert y.grad_fn.next_functions[0][0].variable is x
    (g,) = grad(y, x, create_graph=True)
    (gg,) = grad(g, x, create_graph=True)
    assert (g.item(), gg.item()) == (6.0, 2.0)
    y.backward()
    assert x.grad.item() == 6.0
    assert gradcheck(MySquare.apply, leaf([0.3, 0.7]))
    assert gradgradcheck(MySquare.apply, leaf([0.3, 0.7]))


def test_2_10_functions_compose_with_ops() -> None:
    assert gradgradcheck(lambda x: ad.sin(MySquare.apply(ad.exp(x))) * MySquare.apply(x), leaf([0.3, 0.7]))


def test_forward_is_not_recorded_and_backward_only_on_request() -> None:
    modes: list[bool] = []

    def forward(ctx: Any, x: Any) -> Any:
        modes.append(ad.is_grad_enabled())
        assert not (x * 2).requires_grad
        return x * 2

    def backward(ctx: Any, g: Any) -> Any:
        modes.append(ad.is_grad_enabled())
        return g * 2

    x = leaf([1.0])
    y = function(forward, backward).apply(x)
    y.backward(retain_graph=True)
    grad(y, x, create_graph=True)
    assert modes == [False, False, True]


def test_setup_context() -> None:
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, power = inputs
        ctx.power = power
        ctx.save_for_backward(x, output)

    def backward(ctx: Any, g: Any) -> Any:
        x, out = ctx.saved_tensors
        return g * ctx.power * out / x, None

    power = function(lambda x, power: x**power, backward, setup_context=setup_context)
    x = leaf([2.0, 3.0])
    np.testing.assert_allclose(grad(power.apply(x, 3).sum(), x)[0].numpy(), [12.0, 27.0])
    assert gradgradcheck(lambda x: power.apply(x, 3), x)


def test_needs_input_grad() -> None:
    seen: list[tuple[bool, ...]] = []

    def backward(ctx: Any, g: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return g, None, g, None

    f = function(lambda ctx, a, n, b, c: a * n + b + c, backward)
    a, b = leaf([1.0]), leaf([2.0])
    f.apply(a, 3.0, b, ad.ones(1, dtype=f64)).backward()
    assert seen == [(True, False, True, False)]
    assert (a.grad.item(), b.grad.item()) == (1.0, 1.0)


def test_several_outputs_and_their_numbers() -> None:
    f = function(lambda ctx, x: (x * 2, x * 3), lambda ctx, a, b: a * 2 + b * 30)
    x = leaf([1.0, 1.0])
    a, b = f.apply(x)
    assert a.grad_fn is b.grad_fn
    assert (a.output_nr, b.output_nr) == (0, 1)
    y = a * b
    assert y.grad_fn.next_functions == ((a.grad_fn, 0), (a.grad_fn, 1))
    a.register_hook(lambda g: g * 100)
    b.retain_grad()
    (a * 5 + b * 7 + b).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1000.0 + 240.0] * 2)
    np.testing.assert_array_equal(b.grad.numpy(), [8.0, 8.0])


def test_an_output_keeps_its_node_alive() -> None:
    f = function(lambda ctx, x: (x * 2, x * 3), lambda ctx, a, b: a * 2 + b * 3)
    x = leaf([1.0])
    a, b = f.apply(x)
    node = weakref.ref(a.grad_fn)
    del a
    assert node() is b.grad_fn
    b.backward()
    assert x.grad.item() == 3.0
    del b
    assert node() is None


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


def test_mark_dirty() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(3.0)
        ctx.mark_dirty(x)
        return x

    f = function(forward, lambda ctx, g: g * 3)
    x = leaf([1.0, 2.0])
    h = x * 1
    y = f.apply(h)
    assert y is h
    assert h.grad_fn.name() == "MadeBackward"
    (h * h).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [18.0, 36.0])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        f.apply(leaf([1.0]))


def test_a_dirty_input_that_others_need() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(3.0)
        ctx.mark_dirty(x)
        return x

    x = leaf([1.0, 2.0])
    h = x * 1
    before = h * h
    function(forward, lambda ctx, g: g * 3).apply(h)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        before.sum().backward()


def test_a_dirty_input_must_be_returned() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x * 2

    with pytest.raises(RuntimeError, match="marked as dirty during the forward method were not returned"):
        function(forward, lambda ctx, g: g).apply(leaf([1.0]) * 1)


def test_returning_an_input() -> None:
    f = function(lambda ctx, x: x, lambda ctx, g: g * 10)
    x = leaf([1.0, 2.0])
    y = f.apply(x)
    assert y is not x
    assert x.is_leaf
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [10.0, 10.0])


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
    with pytest.raises(RuntimeError, match="differentiate twice a function that was marked with @once_differentiable"):
        g.sum().backward()


@pytest.mark.parametrize(
    ("backward", "error", "message"),
    [
        (lambda ctx, g: g, RuntimeError, r"MadeBackward returned an incorrect number of gradients \(expected 2, got 1"),
        (lambda ctx, g: (g, None, g), RuntimeError, r"incorrect number of gradients \(expected 2, got 3\)"),
        (lambda ctx, g: (g, g), RuntimeError, "returned a gradient different than None at position 2"),
        (lambda ctx, g: ("a", None), TypeError, r"expected Variable or None \(got str\)"),
        (lambda ctx, g: (g[:1].reshape(1, 1).expand(2, 5), None), RuntimeError, "an invalid gradient at index 0"),
    ],
)
def test_what_backward_must_return(backward: Any, error: type[Exception], message: str) -> None:
    x = leaf([1.0, 2.0])
    y = function(lambda ctx, x, k: x * k, backward).apply(x, 2.0).sum()
    with pytest.raises(error, match=message):
        y.backward()
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


def test_no_keywords() -> None:
    with pytest.raises(TypeError, match="keyword argument"):
        MySquare.apply(x=leaf([1.0]))  # type: ignore[call-arg]


def test_nothing_to_record() -> None:
    f = function(lambda ctx, x: ctx.save_for_backward(x) or x * 2, lambda ctx, g: g)
    assert not f.apply(ad.ones(1)).requires_grad
    with ad.no_grad():
        assert not f.apply(leaf([1.0])).requires_grad


def test_an_abstract_function() -> None:
    class Nothing(Function):
        pass

    with pytest.raises(NotImplementedError, match="must implement the forward"):
        Nothing.apply(leaf([1.0]))

    class Half(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    with pytest.raises(NotImplementedError, match="must implement either the backward"):
        Half.apply(leaf([1.0])).backward()


def test_saved_tensors_after_they_were_freed() -> None:
    x = leaf([3.0])
    y = MySquare.apply(x)
    y.backward(retain_graph=True)
    assert y.grad_fn.saved_tensors[0].item() == 3.0
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        _ = y.grad_fn.saved_tensors
    assert x.grad.item() == 12.0


def test_a_saved_tensor_written_in_place() -> None:
    x = leaf([3.0])
    h = x * 1
    y = MySquare.apply(h)
    h.add_(1.0)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*MySquareBackward"):
        y.backward()


def test_save_for_backward_takes_tensors_and_none() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x, None)
        with pytest.raises(TypeError, match="can only save variables"):
            ctx.save_for_backward(1.0)
        return x * 2

    def backward(ctx: Any, g: Any) -> Any:
        x, nothing = ctx.saved_tensors
        assert nothing is None
        return g * 2 * x / x

    assert gradcheck(function(forward, backward).apply, leaf([1.0, 2.0]))


def test_the_users_attributes_are_the_users() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.shape, ctx.dtype, ctx.order, ctx.parents, ctx.saved, ctx.outputs, ctx.hooks = range(7)
        return x.sum()

    def backward(ctx: Any, g: Any) -> Any:
        assert [ctx.shape, ctx.dtype, ctx.order, ctx.parents, ctx.saved, ctx.outputs, ctx.hooks] == list(range(7))
        with pytest.raises(AttributeError, match="'never'"):
            _ = ctx.never
        return g.expand(2)

    x = leaf([1.0, 2.0])
    function(forward, backward).apply(x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [1.0, 1.0])


def test_an_output_as_attribute_is_differentiable() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.y = ad.exp(x)
        return ctx.y

    assert gradgradcheck(function(forward, lambda ctx, g: g * ctx.y).apply, leaf([0.3, 0.7]))


def test_saved_outputs_of_several_are_differentiable() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        a, b = ad.exp(x), ad.sin(x)
        ctx.save_for_backward(x, a)
        return a, b

    def backward(ctx: Any, ga: Any, gb: Any) -> Any:
        x, a = ctx.saved_tensors
        return ga * a + gb * ad.cos(x)

    f = function(forward, backward)
    assert gradgradcheck(lambda x: f.apply(x)[0] * f.apply(x)[1], leaf([0.3, 0.7]))
    assert gradgradcheck(lambda x: f.apply(x)[0], leaf([0.3, 0.7]))  # the other output is dropped


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
    with pytest.raises(error, match="in a Function"):
        graph() if where == "forward" else y.backward(retain_graph=True)
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


# gradcheck itself


def test_gradcheck_finds_a_wrong_rule() -> None:
    wrong = function(lambda ctx, x, y: x * y.sum(), lambda ctx, g: (g * 1.01 * 5.0, None))
    x, y = leaf([1.0, 2.0]), ad.tensor([2.0, 3.0], dtype=f64)
    message = r"output 0 with respect to input 0,\nnumerical:\n[^a]*analytical:\n[^l]*largest"
    with pytest.raises(RuntimeError, match=message) as caught:
        gradcheck(wrong.apply, (x, y))
    assert "5." in str(caught.value)
    assert "5.05" in str(caught.value)
    assert not gradcheck(wrong.apply, (x, y), raise_exception=False)
    assert gradcheck(wrong.apply, (x, y), rtol=0.02)


def test_gradgradcheck_finds_a_wrong_second_rule() -> None:
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 2 * x.detach()

    half = function(MySquare.forward, backward)
    x = leaf([1.0, 2.0])
    assert gradcheck(half.apply, x)
    with pytest.raises(RuntimeError, match="with respect to input 0"):
        gradgradcheck(half.apply, x)


def test_gradcheck_with_several_inputs_and_outputs() -> None:
    x, y = leaf([[0.3, 0.7], [0.1, 0.2]]), leaf([1.5, 2.5])
    assert gradcheck(lambda x, y: (x @ y, ad.exp(y) * 2.0, x.sum().detach()), (x, y))
    assert gradgradcheck(lambda x, y: (x @ y, ad.exp(y) * x), (x, y))
    wrong = function(lambda ctx, a, b: (a * 2, b * 3), lambda ctx, ga, gb: (ga * 2, gb * 4))
    with pytest.raises(RuntimeError, match="output 1 with respect to input 1"):
        gradcheck(wrong.apply, (leaf([1.0]), leaf([2.0])))


def test_gradcheck_needs_float64_and_something_to_check() -> None:
    with pytest.raises(ValueError, match=r"input 0 is .*float32"):
        gradcheck(ad.exp, ad.ones(1, requires_grad=True))
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(ad.exp, ad.ones(1, dtype=f64))


def test_gradcheck_keeps_its_inputs() -> None:
    x = leaf([1.0, 2.0])
    gradcheck(ad.exp, x)
    assert x.tolist() == [1.0, 2.0]
    assert x.grad is None
