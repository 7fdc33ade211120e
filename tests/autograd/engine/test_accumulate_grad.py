"""Leaves, and the gradients that come to rest in them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import collector_off, leaf, raises

import adjoint as ad

f64 = ad.float64


@pytest.mark.claim("4.11")
def test_what_a_tensor_knows() -> None:
    x = leaf([1.0])
    y = x * 3
    assert (x.requires_grad, x.is_leaf, x.grad_fn, x.grad, x.output_nr) == (True, True, None, None, 0)
    assert (y.requires_grad, y.is_leaf, y.output_nr) == (True, False, 0)
    accumulator = weakref.ref(y.grad_fn.next_functions[0][0])
    with collector_off():
        del x, y
        assert accumulator() is None


@pytest.mark.claim("4.12")
def test_each_node_links_to_those_of_its_inputs() -> None:
    x = leaf([2.0])
    y = x * 3
    z = y + 5
    assert z.item() == 11.0
    assert (y.grad_fn.name(), z.grad_fn.name()) == ("MulBackward0", "AddBackward0")
    assert z.grad_fn.next_functions[0][0] is y.grad_fn
    accumulator, number = y.grad_fn.next_functions[0]
    assert (accumulator.name(), number) == ("AccumulateGrad", 0)
    assert accumulator.variable is x


@pytest.mark.claim("4.14")
def test_recorded_only_where_wanted() -> None:
    x, c = leaf([2.0]), ad.tensor([3.0], dtype=f64)
    with ad.no_grad():
        hidden = x * 3
    for y in (hidden, c * 3):
        assert y.grad_fn is None
        assert not y.requires_grad
    assert (x * c).requires_grad


@pytest.mark.claim("4.15")
def test_the_node_of_relu() -> None:
    x = leaf([0.0, 1.0, -1.0])
    before = x * 1.0
    y = ad.relu(before)
    assert y.grad_fn.name() == "ReluBackward0"
    assert y.grad_fn.next_functions[0][0] is before.grad_fn
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0.0, 1.0, 0.0])


@pytest.mark.claim("4.17")
def test_leaf_and_non_leaf() -> None:
    x = leaf(2.0)
    y = 3 * x
    y.retain_grad()
    assert y.retains_grad
    z = y * y
    z.backward()
    assert (y.grad.item(), x.grad.item()) == (12.0, 36.0)
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert z.grad is None


@pytest.mark.claim("4.18")
def test_saved_values_are_released() -> None:
    x = leaf([2.0])
    y = ad.exp(x)
    held = weakref.ref(y.grad_fn.saved_values[-1])
    y.backward()
    assert y.grad_fn.saved_values is not None
    del y
    assert held() is None
    y = x * x
    y.backward(retain_graph=True)
    assert y.grad_fn._saved_self.item() == 2.0
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        _ = y.grad_fn._saved_self


TABLE: list[tuple[str, Callable[[Any], Any], dict[str, Any]]] = [
    ("AddBackward0", lambda x: x + x, {}),
    ("SubBackward0", lambda x: x - 2 * x, {}),
    ("MulBackward0", lambda x: x * x.detach(), {"other": [[1.0, 2.0], [3.0, 4.0]]}),
    ("MmBackward0", lambda x: x @ x, {"self": [[1.0, 2.0], [3.0, 4.0]], "mat2": [[1.0, 2.0], [3.0, 4.0]]}),
    ("SumBackward0", lambda x: x.sum(), {}),
    ("MeanBackward0", lambda x: x.mean(), {}),
    ("ReluBackward0", lambda x: ad.relu(x - 2.0), {"result": [[0.0, 0.0], [1.0, 2.0]]}),
    ("SigmoidBackward0", lambda x: ad.sigmoid(0 * x), {"result": [[0.5, 0.5], [0.5, 0.5]]}),
    ("ViewBackward0", lambda x: x.view(4), {}),
    ("TBackward0", lambda x: x.t(), {}),
    ("TransposeBackward0", lambda x: x.transpose(0, 1), {}),
    ("SelectBackward0", lambda x: x[1], {}),
    ("PowBackward0", lambda x: x**2, {"self": [[1.0, 2.0], [3.0, 4.0]]}),
    ("ExpBackward0", lambda x: ad.exp(0 * x), {"result": [[1.0, 1.0], [1.0, 1.0]]}),
]


@pytest.mark.claim("4.20")
@pytest.mark.parametrize(("name", "program", "saved"), TABLE, ids=[row[0] for row in TABLE])
def test_names_and_saved_values(name: str, program: Callable[[Any], Any], saved: dict[str, Any]) -> None:
    node = program(leaf([[1.0, 2.0], [3.0, 4.0]])).grad_fn
    assert node.name() == name
    for key, value in saved.items():
        np.testing.assert_array_equal(getattr(node, f"_saved_{key}").detach().numpy(), value)
    with pytest.raises(AttributeError, match="saves nothing called 'nonsense'"):
        _ = node._saved_nonsense


@pytest.mark.claim("4.22")
def test_a_complete_example() -> None:
    x, w, b = leaf([2.0]), leaf([3.0]), leaf([1.0])
    y = x * w
    z = y + b
    loss = z**2
    assert loss.item() == 49.0
    assert loss.grad_fn.name() == "PowBackward0"
    assert loss.grad_fn.next_functions[0] == (z.grad_fn, 0)
    assert z.grad_fn.name() == "AddBackward0"
    (product, zero), (accumulator, one) = z.grad_fn.next_functions
    assert (product, zero, one) == (y.grad_fn, 0, 0)
    assert accumulator.variable is b
    assert [edge[0].variable for edge in y.grad_fn.next_functions] == [x, w]
    loss.backward()
    assert (x.grad.item(), w.grad.item(), b.grad.item()) == (42.0, 28.0, 14.0)


def test_gradients_never_share_memory() -> None:
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    (x + y).sum().backward()
    assert not np.shares_memory(x.grad.numpy(), y.grad.numpy())
    x.grad.add_(1.0)
    np.testing.assert_array_equal(y.grad.numpy(), [1.0, 1.0])


def test_the_callers_gradient_is_not_taken() -> None:
    x = leaf([1.0, 2.0])
    seed = ad.tensor([1.0, 2.0], dtype=f64)
    x.backward(seed)
    (x + 0).backward(seed)
    np.testing.assert_array_equal(seed.numpy(), [1.0, 2.0])
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])


def test_a_fresh_gradient_is_not_copied() -> None:
    x = leaf(np.ones(1000))
    held: list[Any] = []
    handle = x.register_hook(lambda g: held.append(weakref.ref(g.array)))
    (x * 2).sum().backward()
    assert held[0]() is x.grad.array
    handle.remove()
    x.grad = None
    x.register_hook(lambda g: held.append(g))
    (x * 2).sum().backward()
    assert held[1].array is not x.grad.array  # somebody else has it


def test_a_gradient_is_writable_whatever_the_rule_made() -> None:
    x = leaf([1.0, 2.0, 3.0])
    x.sum().backward()  # the rule of sum gives a view that repeats one element
    x.grad.mul_(2.0)
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 2.0, 2.0])


def test_later_gradients_are_added_to_the_same_tensor() -> None:
    x = leaf([1.0, 2.0])
    (x * 3).sum().backward()
    first, memory = x.grad, x.grad.array
    (x * 4).sum().backward()
    assert x.grad is first
    assert x.grad.array is memory
    np.testing.assert_array_equal(first.numpy(), [7.0, 7.0])


def test_with_create_graph_they_are_added_out_of_place() -> None:
    x = leaf([1.0, 2.0])
    (x * 3).sum().backward()
    first = x.grad
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first
    np.testing.assert_array_equal(first.numpy(), [3.0, 3.0])
    assert x.grad.requires_grad
    second = x.grad
    (x * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.detach().numpy(), [8.0, 10.0])
    np.testing.assert_array_equal(second.detach().numpy(), [5.0, 7.0])  # part of a recorded graph: not written


def test_adding_to_a_gradient_that_a_graph_needs_is_noticed() -> None:
    x, w = leaf([1.0, 2.0]), leaf([5.0, 6.0])
    (x * 3).sum().backward()
    loss = (x.grad * w).sum()
    (x * 4).sum().backward()
    raises(RuntimeError, "modified by an inplace operation", loss.backward)


def test_a_gradient_in_memory_that_cannot_be_written_is_replaced() -> None:
    x = leaf([1.0, 2.0])
    x.grad = ad.ones((), dtype=f64).expand(2)
    (x * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [4.0, 4.0])


def test_a_leaf_that_is_gone_gets_nothing() -> None:
    x, y = leaf([1.0]), leaf([2.0])
    z = x * y
    del x
    z.backward()
    assert y.grad.item() == 1.0


@pytest.mark.parametrize(
    ("error", "message", "value"),
    [
        (TypeError, "assigned grad expected to be a Tensor or None", 1.0),
        (RuntimeError, "size", ad.ones(3, dtype=f64)),
        (RuntimeError, "type", ad.ones(2)),
    ],
)
def test_assigning_a_gradient(error: type[Exception], message: str, value: Any) -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(error, match=message):
        x.grad = value
    with pytest.raises(RuntimeError, match="as its own grad"):
        x.grad = x
    x.grad = given = ad.ones(2, dtype=f64)
    assert x.grad is given
    del x.grad
    assert x.grad is None


def test_retain_grad() -> None:
    x = leaf([1.0, 2.0])
    x.retain_grad()  # nothing to do for a leaf
    assert not x.retains_grad
    raises(RuntimeError, "can't retain_grad on Tensor that has requires_grad=False", ad.ones(1).retain_grad)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    (y * y).sum().backward(retain_graph=True)
    np.testing.assert_array_equal(y.grad.numpy(), [4.0, 8.0])
    y.sum().backward()
    np.testing.assert_array_equal(y.grad.numpy(), [5.0, 9.0])
    np.testing.assert_array_equal(x.grad.numpy(), [10.0, 18.0])


def test_retained_gradients_are_all_or_none_too() -> None:
    x = leaf([1.0])
    y = x * 2
    y.retain_grad()
    z = y * 3
    x.register_hook(lambda g: 1 / 0)
    raises(ZeroDivisionError, None, z.backward)
    assert y.grad is None


def test_requires_grad() -> None:
    x = ad.ones(2)
    assert x.requires_grad_() is x
    assert x.requires_grad
    x.requires_grad = False
    assert not x.requires_grad
    raises(RuntimeError, "only Tensors of floating point dtype can require gradients", ad.tensor([1]).requires_grad_)
    y = x.requires_grad_() * 2
    raises(RuntimeError, "you can only change requires_grad flags of leaf variables", y.requires_grad_, False)
    assert y.requires_grad_() is y


def test_detach() -> None:
    x = leaf([1.0, 2.0])
    y = x * 2
    d = y.detach()
    assert (d.requires_grad, d.grad_fn, d.is_leaf) == (False, None, True)
    assert np.shares_memory(d.numpy(), y.detach().numpy())
    z = x * 2
    assert z.detach_() is z
    assert (z.requires_grad, z.grad_fn) == (False, None)
    (y.sum() + z.sum()).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 2.0])


def test_a_scalar_gradient_is_an_array() -> None:
    x = leaf(2.0)
    (x * x * x).backward()
    assert type(x.grad.array) is np.ndarray
    (x * x).backward()
    assert x.grad.item() == 16.0


def test_gradients_of_the_inputs_only() -> None:
    x, w = ad.tensor([2.0], requires_grad=True), ad.tensor([3.0], requires_grad=True)
    (g,) = ad.autograd.grad(outputs=x * w, inputs=x, create_graph=True, retain_graph=True, only_inputs=True)
    assert (g.item(), w.grad) == (3, None)
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated and is ignored now"):
        ad.autograd.grad(x * w, x, None, None, False, False)
