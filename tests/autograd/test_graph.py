"""The graph as users walk it: nodes and edges as things of their own, and hooks on several gradients."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.support.checks import collector_off, raises

import adjoint as ad
from adjoint.autograd import graph
from adjoint.autograd.graph import GradientEdge, get_gradient_edge, register_multi_grad_hook


class Double(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        assert isinstance(ctx, graph.Node)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        assert isinstance(ctx, graph.Node)
        return g * 2


def leaf(*values: float) -> ad.Tensor:
    return ad.tensor(values, requires_grad=True)


@pytest.mark.parametrize(
    "f", [lambda x: x * 2, lambda x: x.unbind()[0], Double.apply, lambda x: x.view_as(x), lambda x: (x * 1).add_(1)]
)
def test_every_node_is_a_node(f: Any) -> None:
    y = f(leaf(1.0, 2.0))
    assert isinstance(y.grad_fn, graph.Node)
    assert issubclass(type(y.grad_fn), graph.Node)
    assert isinstance(y.grad_fn.next_functions[0][0], graph.Node)
    y.sum().backward()


def test_other_things_are_no_nodes() -> None:
    assert not any(isinstance(x, graph.Node) for x in (None, 1, graph.Node, ad.rand(1)))
    raises(TypeError, "abstract", graph.Node)


# A node as a function.


def test_a_node_is_called_with_gradients() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    g = ad.tensor([1.0, 10.0])
    by_x, by_y = (x * y).grad_fn(g)
    assert by_x.tolist() == [3.0, 40.0]
    assert by_y.tolist() == [1.0, 20.0]
    assert x.exp().grad_fn(g).shape == (2,)  # one gradient is not in a tuple
    assert (x * 3).grad_fn(None) == (None, None)
    assert Double.apply(x).grad_fn(g).tolist() == [2.0, 20.0]
    assert ad.autograd.grad(by_x.sum(), y)[0].tolist() == [1.0, 10.0]  # recorded, as any call


def test_a_node_of_several_outputs_is_called_with_as_many_gradients() -> None:
    x = leaf(1.0, 2.0)
    node = x.unbind()[0].grad_fn
    assert node(ad.tensor(5.0), None).tolist() == [5.0, 0.0]
    raises(TypeError, "expected 2 arguments, got 1 instead", lambda: node(ad.tensor(5.0)))


def test_a_leaf_that_is_called_accumulates() -> None:
    x = leaf(1.0, 2.0)
    accumulate = (x * 2).grad_fn.next_functions[0][0]
    for _ in range(2):
        assert accumulate(ad.tensor([1.0, 2.0])) is None
    assert x.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("gradients", "error"),
    [((), "expected 1 arguments, got 0"), ((1, 2), "expected 1 arguments, got 2"), ((1,), "expected Tensor or None")],
)
def test_a_node_called_wrongly_says_how(gradients: tuple[Any, ...], error: str) -> None:
    raises(TypeError, f"ExpBackward0: {error}", lambda: leaf(1.0).exp().grad_fn(*gradients))


def test_what_a_node_knows_of_its_outputs() -> None:
    x = ad.rand(2, 3, requires_grad=True, dtype=ad.float64)
    (known,) = x.sum(1).grad_fn._input_metadata
    assert (known.shape, known.dtype, known.device) == ((2,), ad.float64, ad.device("cpu"))
    assert [m.shape for m in x.unbind()[0].grad_fn._input_metadata] == [(3,), (3,)]
    assert Double.apply(x).grad_fn._input_metadata[0].shape == (2, 3)


def test_the_order_of_nodes_can_be_read_and_changed() -> None:
    x = leaf(1.0)
    a, b = x + 1, x + 2
    assert a.grad_fn._sequence_nr() < b.grad_fn._sequence_nr()
    seen: list[str] = []
    a.register_hook(lambda g: seen.append("a"))
    b.register_hook(lambda g: seen.append("b"))
    y = a + b
    y.backward(retain_graph=True)
    number = a.grad_fn._sequence_nr()
    a.grad_fn._set_sequence_nr(b.grad_fn._sequence_nr())
    b.grad_fn._set_sequence_nr(number)
    y.backward()
    assert seen == ["b", "a", "a", "b"]


# Edges.


def test_an_edge_stands_for_the_tensor_in_grad() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    for wanted in (x, y, Double.apply(y), y.unbind()[1]):
        assert ad.autograd.grad((wanted * 2).sum(), get_gradient_edge(wanted))[0].tolist() == (
            ad.autograd.grad((wanted * 2).sum(), wanted)[0].tolist()
        )


def test_an_edge_stays_where_it_is_when_the_tensor_is_written() -> None:
    x = leaf(1.0, 2.0).clone()
    before = get_gradient_edge(x)
    x *= 2
    old, new = ad.autograd.grad(x.sum(), (before, x))
    assert (old.tolist(), new.tolist()) == ([2, 2], [1, 1])


def test_edges_put_together_by_hand() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    g, h = ad.autograd.grad(y.sum(), (GradientEdge(y.grad_fn, 0), GradientEdge(*y.grad_fn.next_functions[0])))
    assert (g.tolist(), h.tolist()) == ([1, 1], [3, 3])
    node = y.unbind()[0].grad_fn
    with pytest.raises(RuntimeError, match=r"found by get_gradient_edge\(tensor\) only"):
        ad.autograd.grad(y.sum(), GradientEdge(node, 1))


def test_an_edge_as_a_root() -> None:
    x = leaf(1.0, 2.0)

    def run() -> tuple[ad.Tensor, GradientEdge]:
        y = x.exp().sum()
        return y * 2, get_gradient_edge(y)

    _, edge = run()
    assert np.allclose(ad.autograd.grad(edge, x, retain_graph=True)[0].numpy(), np.exp([1.0, 2.0]))
    ad.autograd.backward((edge, run()[0]))
    assert np.allclose(x.grad.numpy(), 3 * np.exp([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        ad.autograd.grad(get_gradient_edge(x * 2), x)
    raises(RuntimeError, "Mismatch in shape", lambda: ad.autograd.backward(run()[1], grad_tensors=ad.ones(4), inputs=x))


def test_edges_as_inputs_of_backward_reach_leaves_alone() -> None:
    x = leaf(1.0, 2.0)
    y = x * 3
    ad.autograd.backward(y.sum(), inputs=(get_gradient_edge(y), get_gradient_edge(x)))
    assert x.grad.tolist() == [3, 3]


def test_an_edge_that_was_not_used() -> None:
    x, y = leaf(1.0), leaf(2.0)
    edge = get_gradient_edge(y)
    assert ad.autograd.grad(x * 2, (x, edge), allow_unused=True)[1] is None
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used when the given input is a GradientEdge"):
        ad.autograd.grad(x * 2, (x, edge), allow_unused=True, materialize_grads=True)
    raises(RuntimeError, "does not require gradients", lambda: get_gradient_edge(ad.rand(2)))


def test_a_counted_write_spoils_what_was_saved() -> None:
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    graph.increment_version(x)
    assert x._version == 1
    graph.increment_version([x, x])
    assert x._version == 3
    raises(RuntimeError, "modified by an inplace operation", y.backward)


# Hooks on several gradients.


def test_a_hook_on_all_gradients_waits_for_those_that_come() -> None:
    x, y, other = leaf(1.0), leaf(2.0), leaf(3.0)
    z = x * 2
    seen: list[list[float | None]] = []
    handle = register_multi_grad_hook(
        (x, y, z, other), lambda grads: seen.append([None if g is None else g.item() for g in grads])
    )
    out = z * y
    out.backward(retain_graph=True)
    assert seen == [[4, 2, 2, None]]
    out.backward(inputs=(y, z), retain_graph=True)
    assert seen[1:] == [[None, 2, 2, None]]
    ad.autograd.grad(out, x, retain_graph=True)
    assert seen[2:] == [[4, None, 2, None]]
    handle.remove()
    out.backward()
    assert len(seen) == 3


def test_a_pass_that_fails_leaves_nothing_behind() -> None:
    class Failing(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise LookupError("on purpose")

    x = leaf(1.0)
    y = x * 2
    calls: list[Sequence[Any]] = []
    register_multi_grad_hook((y, x), calls.append)
    raises(LookupError, "on purpose", (y * Failing.apply(x * 1)).backward)
    (y * 3).backward()
    assert [[g.item() for g in grads] for grads in calls] == [[3.0, 6.0]]


def test_a_hook_on_any_gradient_runs_once_a_pass() -> None:
    x = leaf(1.0)
    y, z = x * 2, x * 3
    seen: list[float] = []
    register_multi_grad_hook((y, z, ad.rand(1)), lambda g: seen.append(g.item()), mode="any")
    for _ in range(2):
        (y * 5 + z * 7).backward(retain_graph=True)
    assert len(seen) == 2


def test_what_a_hook_on_several_gradients_refuses() -> None:
    with pytest.raises(ValueError, match=r"Expects mode to be one of \('all', 'any'\) but got foo"):
        register_multi_grad_hook((leaf(1.0),), print, mode="foo")
    with pytest.raises(RuntimeError, match="tensor 1 does not require grad"):
        register_multi_grad_hook((leaf(1.0), ad.rand(1)), print)


def test_a_pass_that_is_taken_step_by_step_is_a_pass() -> None:
    x = leaf(1.0)
    y = x * 2
    calls: list[Sequence[Any]] = []
    register_multi_grad_hook((y, x), calls.append)
    for _ in ad.autograd.backward_steps(y * 3):
        pass
    assert [[g.item() for g in grads] for grads in calls] == [[3.0, 6.0]]


def test_a_hook_on_several_leaves_leaves_nothing_for_the_garbage_collector() -> None:
    def used() -> Any:
        x, y = leaf(1.0), leaf(2.0)
        register_multi_grad_hook((x, y), lambda gradients: None)
        (x * y).sum().backward()
        return weakref.ref(x)

    gc.collect()
    with collector_off():
        assert used()() is None
