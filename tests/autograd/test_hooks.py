"""Hooks on tensors, on leaves and on nodes."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from tests.support.checks import leaf, raises

import adjoint as ad
from adjoint.core.graph.hooks import RemovableHandle

f64 = ad.float64


def test_a_hook_sees_and_replaces_the_gradient() -> None:
    x = leaf([1.0, 2.0])
    y = x * 3
    seen: list[Any] = []
    y.register_hook(lambda g: seen.append(g.numpy().copy()))
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(g.numpy().copy()))
    x.register_hook(lambda g: g + 1)
    (y * y).sum().backward()
    np.testing.assert_array_equal(seen, [[6.0, 12.0], [60.0, 120.0]])
    np.testing.assert_array_equal(x.grad.numpy(), [181.0, 361.0])


def test_a_hook_on_a_leaf_sees_the_sum_of_one_pass() -> None:
    x = leaf([1.0])
    seen: list[float] = []
    x.register_hook(lambda g: seen.append(g.item()))
    (x * 2 + x * 3).backward()
    (x * 7).backward()
    assert seen == [5.0, 7.0]
    assert x.grad.item() == 12.0


def test_hooks_run_for_the_inputs_of_grad() -> None:
    x = leaf(2.0)
    y = x * 3
    x.register_hook(lambda g: g * 2)
    y.register_hook(lambda g: g * 5)
    post: list[Any] = []
    x.register_post_accumulate_grad_hook(post.append)
    gy, gx = ad.autograd.grad(y * y, [y, x])
    assert (gy.item(), gx.item()) == (60.0, 360.0)
    assert post == []


def test_a_hook_may_differentiate() -> None:
    x = leaf(2.0)
    y = x * x
    y.register_hook(lambda g: g * x)
    (g,) = ad.autograd.grad(y, x, create_graph=True)  # 2x², whose derivative is 4x
    (gg,) = ad.autograd.grad(g, x)
    assert (g.item(), gg.item()) == (8.0, 8.0)


def test_gradients_in_hooks_carry_no_history_without_create_graph() -> None:
    x = leaf(2.0)
    y = x * x
    modes: list[tuple[bool, bool]] = []
    y.register_hook(lambda g: modes.append((ad.is_grad_enabled(), (g * x).requires_grad)))
    y.backward(retain_graph=True)
    y.backward(create_graph=True)
    assert modes == [(False, False), (True, True)]


def test_handles() -> None:
    x = leaf(1.0)
    calls: list[str] = []
    first = x.register_hook(lambda g: calls.append("first"))
    with x.register_hook(lambda g: calls.append("second")) as second:
        (x * 1).backward()
        assert first.id != second.id
    (x * 1).backward()
    first.remove()
    first.remove()
    (x * 1).backward()
    assert calls == ["first", "second", "first"]


def test_a_handle_does_not_keep_the_hooks() -> None:
    hooks: Any = OrderedDict()
    handle = RemovableHandle(hooks)
    hooks[handle.id] = print
    del hooks
    handle.remove()  # nothing is left to be taken off


def test_removal_while_hooks_run() -> None:
    x = leaf(1.0)
    y = x * 1
    calls: list[str] = []
    handles: list[Any] = []

    def once(g: Any) -> None:
        calls.append("once")
        for handle in handles:
            handle.remove()

    handles.append(y.register_hook(once))
    handles.append(y.register_hook(lambda g: calls.append("other")))
    y.backward(retain_graph=True)
    y.backward()
    assert calls == ["once", "other"]  # who was there when the run began is called


@pytest.mark.parametrize(
    ("hook", "error", "message"),
    [
        (lambda g: 1, TypeError, "expected Variable, but hook returned 'int'"),
        (lambda g: g[:1], RuntimeError, "hook '<lambda>' has changed the size of value"),
        (lambda g: g.to(ad.float32), RuntimeError, "hook '<lambda>' has changed the type of value"),
    ],
)
def test_a_replacement_must_fit(hook: Any, error: type[Exception], message: str) -> None:
    x = leaf([1.0, 2.0])
    handle = x.register_hook(hook)
    y = (x * 2).sum()
    raises(error, message, y.backward)
    assert x.grad is None
    handle.remove()


def test_hooks_where_none_can_be() -> None:
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        ad.ones(1).register_hook(print)
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        ad.ones(1).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="post accumulate grad hooks cannot be registered on non-leaf tensors"):
        (leaf(1.0) * 2).register_post_accumulate_grad_hook(print)


def test_post_accumulate_grad_hook() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    seen: list[Any] = []

    def step(parameter: Any) -> None:
        seen.append((parameter is x, y.grad is not None))
        with ad.no_grad():
            parameter.sub_(parameter.grad)
        parameter.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * y).sum().backward()
    assert seen == [(True, False)]  # as soon as all that goes to x has arrived; the others come to rest together
    assert x.grad is None
    np.testing.assert_array_equal(x.detach().numpy(), [-2.0, -2.0])
    handle.remove()
    (x * y).sum().backward()
    assert x.grad is not None


def test_hooks_of_a_leaf_run_as_soon_as_all_has_arrived_there() -> None:
    early, late = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    log: list[str] = []
    early.register_hook(lambda g: log.append("early"))
    early.register_post_accumulate_grad_hook(lambda p: log.append(f"stored {p.grad.tolist()}"))
    late.register_hook(lambda g: log.append("late"))
    h = late * 2
    h.register_hook(lambda g: log.append("h"))
    ((h * early) * early).sum().backward()  # two edges lead to `early`
    assert log == ["early", "stored [12.0, 32.0]", "h", "late"]
    assert late.grad.tolist() == [2.0, 8.0]


def test_post_accumulate_hooks_let_gradients_go_one_by_one() -> None:
    weights = [ad.ones(1000, requires_grad=True) for _ in range(20)]
    alive: list[int] = []

    def drop(p: Any) -> None:
        alive.append(sum(w.grad is not None for w in weights))
        p.grad = None

    for w in weights:
        w.register_post_accumulate_grad_hook(drop)
    h = ad.ones(1000)
    for w in weights:
        h = h * w
    h.sum().backward()
    assert alive == [1] * 20


def test_a_post_accumulate_hook_returns_none() -> None:
    x = leaf([1.0])
    x.register_post_accumulate_grad_hook(lambda p: p)
    raises(RuntimeError, "should return None", (x * 2).backward)


def test_a_post_accumulate_hook_may_run_backward() -> None:
    x, w = leaf([1.0]), leaf([1.0])
    loss = w * 2
    x.register_post_accumulate_grad_hook(lambda p: loss.backward())
    (x * 3).backward()
    assert (x.grad.item(), w.grad.item()) == (3.0, 2.0)


def test_node_hooks_see_both_sides() -> None:
    x = leaf(2.0)
    y = x * 3
    z = y * y
    calls: list[Any] = []
    values = lambda gs: [g.item() for g in gs]  # noqa: E731
    z.register_hook(lambda g: calls.append("tensor"))
    z.grad_fn.register_prehook(lambda gs: calls.append(("before", values(gs))))
    z.grad_fn.register_hook(lambda gi, go: calls.append(("after", values(gi), values(go))))
    z.backward()
    assert calls == ["tensor", ("before", [1.0]), ("after", [6.0, 6.0], [1.0])]
    assert x.grad.item() == 36.0


def test_node_hooks_replace_gradients() -> None:
    x, y = leaf(2.0), leaf(5.0)
    z = x * y
    handles = [
        z.grad_fn.register_prehook(lambda gs: (gs[0] * 10,)),
        z.grad_fn.register_hook(lambda gi, go: (gi[0] + 1, None)),
    ]
    z.backward(retain_graph=True)
    assert (x.grad.item(), y.grad) == (51.0, None)
    for handle in handles:
        handle.remove()
    z.backward()
    assert (x.grad.item(), y.grad.item()) == (56.0, 2.0)


def test_node_hooks_must_return_as_many() -> None:
    z = leaf(2.0) * leaf(3.0)
    z.grad_fn.register_hook(lambda gi, go: (gi[0],))
    raises(RuntimeError, "has returned an incorrect number of values", z.backward)


def test_hooks_on_the_accumulating_node() -> None:
    x = leaf(2.0)
    z = x * 3
    accumulator = z.grad_fn.next_functions[0][0]
    calls: list[Any] = []
    accumulator.register_prehook(lambda gs: calls.append((gs[0].item(), x.grad)))
    accumulator.register_hook(lambda gi, go: calls.append((gi, go[0].item(), x.grad.item())))
    z.backward()
    assert calls == [(3.0, None), ((), 3.0, 3.0)]


def test_hooks_are_called_in_order_along_a_chain() -> None:
    x = leaf(1.0)
    y = x * 2
    z = y * 3
    order: list[str] = []
    for name, t in (("x", x), ("y", y), ("z", z)):
        t.register_hook(lambda g, name=name: order.append(name))
    z.backward()
    assert order == ["z", "y", "x"]


def test_a_hook_on_an_unreached_tensor_is_silent() -> None:
    x = leaf(1.0)
    y, other = x * 2, x * 3
    other.register_hook(lambda g: 1 / 0)
    y.backward()
    assert x.grad.item() == 2.0


def test_a_tensor_with_hooks_is_pickled_without_them() -> None:
    x = leaf([1.0])
    x.register_hook(lambda g: g)
    assert pickle.loads(pickle.dumps(x)).requires_grad


def test_a_hook_on_one_of_several_outputs_learns_that_no_gradient_came() -> None:
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    first, second, _ = x.unbind()
    seen: list[Any] = []
    first.register_hook(seen.append)
    second.backward(retain_graph=True)
    assert seen == [None]
    first.backward()
    assert seen[1].item() == 1.0


def test_a_hook_cannot_make_a_gradient_where_none_came() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    first, second = x.unbind()
    first.register_hook(lambda g: ad.ones(()))
    raises(RuntimeError, "can't replace a None gradient", second.backward)
