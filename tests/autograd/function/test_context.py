"""`ctx`: what a Function keeps for its backward, and the node that it is."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from tests.support.checks import collector_off, leaf, raises

import adjoint as ad
from adjoint.autograd import Function, grad, gradgradcheck
from adjoint.autograd.function import FunctionCtx
from adjoint.autograd.graph import Node, saved_tensors_hooks

f64 = ad.float64


class Keeping(Function):
    """x·2, with whatever `choose(x, out)` says saved; `seen` holds what backward got."""

    seen: tuple[Any, ...] = ()

    @staticmethod
    def forward(ctx: Any, x: Any, choose: Any) -> Any:
        out = x * 2
        ctx.save_for_backward(*choose(x, out))
        ctx.label = "kept"
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        Keeping.seen = ctx.saved_tensors
        return g * 2, None


def test_the_ctx_is_the_node() -> None:
    met: list[Any] = []

    class Meets(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, n: int) -> Any:
            assert isinstance(ctx, Node)
            assert isinstance(ctx, FunctionCtx)
            assert ctx.name() == "MeetsBackward"
            assert ctx.next_functions[0][0].variable is x
            assert len(ctx.next_functions) == 1
            ctx.metadata["from"] = "forward"
            ctx.shape, ctx.sequence_nr = "mine", "too"
            return x * n

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            met.append(ctx)
            assert (ctx.shape, ctx.sequence_nr, ctx.later) == ("mine", "too", 3)
            ctx.seen = True
            return g * 2, None

    x = leaf([1.0])
    y = Meets.apply(x, 2)
    node = y.grad_fn
    assert isinstance(node, Node)
    assert type(node) is Meets._backward_cls
    assert type(node).__name__ == "MeetsBackward"
    assert node.metadata == {"from": "forward"}
    node.later = 3
    y.backward()
    assert met[0] == node
    assert node == met[0]
    assert len({met[0], node}) == 1
    assert node.seen
    assert "MeetsBackward" in repr(met[0])


def test_a_ctx_outlives_its_graph() -> None:
    held: list[Any] = []

    class Held(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            held.append(ctx)
            return g

    x = leaf([1.0])
    y = Held.apply(x)
    y.backward(retain_graph=True)
    del y
    assert held[0].saved_tensors[0] is x


def test_saved_inputs_come_back_as_the_tensors_they_are() -> None:
    x, constant = leaf([1.0]), ad.ones(1, dtype=f64)
    for given in (x, x * 3):
        Keeping.apply(given, lambda t, out, given=given: (t, None, constant)).backward()
        assert Keeping.seen[0] is given
        assert Keeping.seen[1] is None
        assert Keeping.seen[2] is constant


def test_a_saved_input_that_is_gone_is_made_anew() -> None:
    x = leaf([1.5])
    y = Keeping.apply(x * 3, lambda t, out: (t,))
    (gx,) = grad(y.grad_fn.saved_tensors[0] * 2, x, retain_graph=True)
    assert gx.item() == 6.0
    y.backward()
    assert Keeping.seen[0].item() == 4.5


def test_a_saved_leaf_lives_on() -> None:
    def choose(t: Any, out: Any) -> Any:
        with ad.enable_grad():
            return (ad.ones(1, dtype=f64).requires_grad_(),)

    Keeping.apply(leaf([1.0]), choose).backward()
    (inner,) = Keeping.seen
    (inner * 3).backward()
    assert inner.grad.item() == 3.0


def test_a_saved_output_leads_to_the_node_without_a_cycle() -> None:
    x = leaf([1.0])
    with collector_off():
        y = Keeping.apply(x, lambda t, out: (out,))
        (out,) = y.grad_fn.saved_tensors
        assert out is not y
        assert (out.grad_fn, out.output_nr, out.requires_grad) == (y.grad_fn, 0, True)
        node = weakref.ref(y.grad_fn)
        del y, out
        assert node() is None


def test_an_input_saved_and_written_later_makes_no_cycle() -> None:
    x = leaf([1.0])
    with collector_off():
        h = x * 1
        y = Keeping.apply(h, lambda t, out: (t,))
        h.mul_(y)  # the history of h leads to the node that keeps h
        node = weakref.ref(y.grad_fn)
        raises(RuntimeError, r"KeepingBackward saved at .*test_context.py", y.backward)
        del h, y
        assert node() is None


def test_what_is_saved_may_be_asked_for_once_it_is_time() -> None:
    seen: list[Any] = []

    def choose(x: Any, out: Any) -> Any:
        return (x,)

    class Early(Keeping):
        @staticmethod
        def forward(ctx: Any, x: Any, choose: Any) -> Any:
            out = Keeping.forward(ctx, x, choose)
            seen.append(ctx.saved_tensors)
            return out

    y = Early.apply(leaf([1.0]), choose)
    assert seen == [()]
    assert len(y.grad_fn.saved_tensors) == 1
    assert y.grad_fn.label == "kept"
    y.backward()
    for name in ("saved_tensors", "_raw_saved_tensors"):
        raises(RuntimeError, r"after they have already been freed.*EarlyBackward", getattr, y.grad_fn, name)
    with pytest.raises(AttributeError, match=r"'EarlyBackward' object \(ctx\) has no attribute 'never'"):
        _ = y.grad_fn.never


def test_saved_tensors_cleared_on_access() -> None:
    class Once(Keeping):
        clear_saved_tensors_on_access = True

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            reference = weakref.ref(x)
            del x
            assert reference() is None
            with pytest.raises(RuntimeError, match="can only be accessed once"):
                _ = ctx.saved_tensors
            return g, None

    y = Once.apply(leaf([1.0]) * 1, lambda x, out: (x,))
    y.backward()
    with pytest.raises(RuntimeError, match="can only be accessed once"):
        _ = y.grad_fn.saved_tensors
    assert y.grad_fn._raw_saved_tensors == ()


def test_needs_input_grad_without_recording() -> None:
    seen: list[Any] = []

    class Asks(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, k: Any) -> Any:
            ctx.save_for_backward(x)
            seen.append((ctx.needs_input_grad, ctx.next_functions))
            return x * k

    with ad.no_grad():
        y = Asks.apply(leaf([1.0]), 2.0)
    assert not y.requires_grad
    assert seen == [((True, False), ())]


def test_tensors_go_through_the_hooks_on_saved_tensors() -> None:
    packed: list[Any] = []

    def pack(tensor: Any) -> Any:
        packed.append(tensor.requires_grad)
        return tensor.detach().numpy().copy()

    x = leaf([0.3, 0.7])
    with saved_tensors_hooks(pack, ad.tensor):
        y = Keeping.apply(x, lambda t, out: (t, out, None))
    y.sum().backward(retain_graph=True)
    assert packed == [True, False]
    np.testing.assert_array_equal(Keeping.seen[1].numpy(force=True), [0.6, 1.4])
    assert (Keeping.seen[0].grad_fn, Keeping.seen[1].grad_fn) == (None, y.grad_fn)

    class Squared(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0] * 2

    with saved_tensors_hooks(pack, ad.tensor):
        assert gradgradcheck(Squared.apply, x)


def test_hooks_on_one_saved_tensor() -> None:
    y = Keeping.apply(leaf([2.0]), lambda t, out: (t, None))
    first, second = y.grad_fn._raw_saved_tensors
    assert first.data.item() == 2.0
    assert second.data is None
    raises(RuntimeError, "None is forbidden", lambda: second.register_hooks(lambda t: t, lambda t: t))
    first.register_hooks(lambda t: t * 10, lambda t: t + 1)
    raises(RuntimeError, "already been set", lambda: first.register_hooks(lambda t: t, lambda t: t))
    assert (first.data.item(), first.unpack().item(), first.unpack_hook(1)) == (20.0, 21.0, 2)
    y.backward()
    assert Keeping.seen[0].item() == 21.0
    raises(RuntimeError, "after it has been freed", lambda: first.register_hooks(lambda t: t, lambda t: t))


def test_flags_take_tensors_alone() -> None:
    ctx = FunctionCtx()
    x = leaf([1.0])
    ctx.save_for_backward(x, None)
    assert ctx.to_save == (x, None)
    raises(TypeError, "can only save variables, but argument 1 is of type int", lambda: ctx.save_for_backward(x, 3))
    raises(AssertionError, "expects all arguments to be tensors", lambda: ctx.save_for_forward(3))
    raises(RuntimeError, "mark_dirty can only accept variables", lambda: ctx.mark_dirty(3))
    with pytest.raises(RuntimeError, match="mark_non_differentiable only accepts variable arguments"):
        ctx.mark_non_differentiable(3)
    with pytest.warns(DeprecationWarning, match="Tensors with shared storages are automatically tracked"):
        ctx.mark_shared_storage()
    with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated"):
        assert ctx.saved_variables == ()


@pytest.mark.parametrize("fill", [True, False])
def test_gradients_of_outputs_that_have_none(fill: bool) -> None:
    seen: list[Any] = []

    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            a, b = x * 2, x * 3
            ctx.mark_non_differentiable(b)
            ctx._materialize_non_diff_grads = fill
            return a, b

        @staticmethod
        def backward(ctx: Any, ga: Any, gb: Any) -> Any:
            seen.append(gb)
            return ga * 2

    Two.apply(leaf([1.0]))[0].backward()
    assert [None if g is None else g.tolist() for g in seen] == [[0.0] if fill else None]
