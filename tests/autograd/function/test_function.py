"""`Function`: what PyTorch documents for user-written ops."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from tests.support.checks import function, leaf, raises

import adjoint as ad
from adjoint.autograd import Function, grad, gradcheck, gradgradcheck
from adjoint.autograd.function import InplaceFunction

f64 = ad.float64


class MySquare(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * g


@pytest.mark.claim("4.21")
def test_a_square_of_ones_own() -> None:
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


@pytest.mark.claim("2.10")
def test_functions_compose_with_ops() -> None:
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
    raises(RuntimeError, "modified by an inplace operation", before.sum().backward)


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


def test_keywords_take_the_places_that_forward_gives_them() -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any, k: int = 2, m: int = 5) -> Any:
        seen.append((k, m, ctx.needs_input_grad))
        return x * k

    f = function(forward, lambda ctx, g: (g * 2, None, None))
    x = leaf([1.0])
    f.apply(x=x)
    f.apply(x, k=3)
    f.apply(x, m=7).backward()
    assert seen == [(2, 5, (True, False, False)), (3, 5, (True, False, False)), (2, 7, (True, False, False))]
    assert x.grad.item() == 2.0
    for wrong, message in (
        ({"z": 1}, "unexpected keyword argument 'z'"),
        ({"x": 1}, "Made: forward.*multiple values for argument 'x'"),
    ):
        raises(TypeError, message, f.apply, x, **wrong)
    only_by_keyword = function(lambda ctx, x, *, k=1: x * k, lambda ctx, g: g)
    raises(TypeError, "unexpected keyword argument 'k'", lambda: only_by_keyword.apply(x, k=2))


def test_setup_context_sees_the_defaults_of_forward() -> None:
    seen: list[Any] = []

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        seen.append((inputs[1:], ad.is_grad_enabled()))

    f = function(lambda x, k=3: x * k, lambda ctx, g: (g * 3, None), setup_context=setup_context)
    x = leaf([1.0])
    f.apply(x).backward()
    f.apply(x, k=4)
    assert seen == [((3,), False), ((4,), False)]
    assert x.grad.item() == 3.0


def test_class_methods() -> None:
    class Scaled(Function):
        factor = 3.0

        @classmethod
        def forward(cls, x: Any, k: float = 2.0) -> Any:  # type: ignore[override]
            return x * cls.factor * k

        @classmethod
        def setup_context(cls, ctx: Any, inputs: Any, output: Any) -> None:  # type: ignore[override]
            ctx.k = inputs[1]

        @classmethod
        def backward(cls, ctx: Any, g: Any) -> Any:  # type: ignore[override]
            return g * cls.factor * ctx.k, None

    x = leaf([1.0])
    Scaled.apply(x).backward()
    assert x.grad.item() == 6.0


def test_nothing_to_record() -> None:
    f = function(lambda ctx, x: ctx.save_for_backward(x) or x * 2, lambda ctx, g: g)
    assert not f.apply(ad.ones(1)).requires_grad
    with ad.no_grad():
        assert not f.apply(leaf([1.0])).requires_grad


def test_an_abstract_function() -> None:
    class Nothing(Function):
        pass

    raises(NotImplementedError, "must implement the forward", lambda: Nothing.apply(leaf([1.0])))

    class Half(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    raises(NotImplementedError, "must implement either the backward", Half.apply(leaf([1.0])).backward)


def test_a_function_is_not_instantiated() -> None:
    class Legacy(Function):
        def forward(self, x: Any) -> Any:  # type: ignore[override]
            return x

    with pytest.warns(DeprecationWarning, match="Legacy.*should not be instantiated"):
        made = Legacy()
    with pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward method is deprecated"):
        made(leaf([1.0]))
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        assert InplaceFunction(True).inplace


def test_saved_tensors_after_they_were_freed() -> None:
    x = leaf([3.0])
    y = MySquare.apply(x)
    y.backward(retain_graph=True)
    assert y.grad_fn.saved_tensors[0].item() == 3.0
    y.backward()
    raises(RuntimeError, "second time", y.backward)
    with pytest.raises(RuntimeError, match="second time"):
        _ = y.grad_fn.saved_tensors
    assert x.grad.item() == 12.0


def test_a_saved_tensor_written_in_place() -> None:
    x = leaf([3.0])
    h = x * 1
    y = MySquare.apply(h)
    h.add_(1.0)
    raises(RuntimeError, r"modified by an inplace operation.*MySquareBackward", y.backward)


def test_save_for_backward_takes_tensors_and_none() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x, None)
        raises(TypeError, "can only save variables", lambda: ctx.save_for_backward(1.0))
        return x * 2

    def backward(ctx: Any, g: Any) -> Any:
        x, nothing = ctx.saved_tensors
        assert nothing is None
        return g * 2 * x / x

    assert gradcheck(function(forward, backward).apply, leaf([1.0, 2.0]))


def test_the_users_attributes_are_the_users() -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.shape, ctx.dtype, ctx.sequence_nr, ctx.parents, ctx.saved_values, ctx.outputs = range(6)
        return x.sum()

    def backward(ctx: Any, g: Any) -> Any:
        assert [ctx.shape, ctx.dtype, ctx.sequence_nr, ctx.parents, ctx.saved_values, ctx.outputs] == list(range(6))
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
