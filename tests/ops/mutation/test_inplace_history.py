"""Writing in place: the gradient is right, or backward says what was written and where."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint.autograd import grad

f64 = ad.float64


def leaf(values: Any) -> Any:
    return ad.tensor(values, dtype=f64, requires_grad=True)


def line() -> int:
    """The number of the line that calls this."""
    frame = inspect.currentframe()
    return frame.f_back.f_lineno


WRITES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda t: t.add_(5.0), "view": lambda t: t.view(1, 2).add_(5.0), "slice": lambda t: t[1:].add_(5.0),
    "transpose": lambda t: t.view(1, 2).t().mul_(5.0), "detached": lambda t: t.detach().add_(5.0),
    "data": lambda t: t.data.add_(5.0), "index": lambda t: t.detach().__setitem__(0, 5.0),
    "view of a detached": lambda t: t.detach()[:1].zero_(),
}  # fmt: skip
SAVERS: dict[str, Callable[[Any, Any], Any]] = {
    "input": lambda t, w: t * w,
    "output": lambda t, w: t + 0.0 * w,
    "both": lambda t, w: t * t * w,
    "function of a view": lambda t, w: (t.view(2, 1) * w.view(2, 1)).view(2),
}


@pytest.mark.parametrize("written", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize("use", SAVERS.values(), ids=SAVERS.keys())
def test_a_saved_value_that_was_written_is_noticed(written: Any, use: Any) -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    t = ad.exp(x)
    z = use(t, w).sum()
    with ad.no_grad():
        written(t)
    assert_raises(RuntimeError, "has been modified by an inplace operation", z.backward)
    assert (x.grad, w.grad) == (None, None)


@pytest.mark.parametrize("written", WRITES.values(), ids=WRITES.keys())
def test_a_saved_constant_that_was_written_is_noticed(written: Any) -> None:
    w, c = leaf([3.0, 4.0]), ad.tensor([1.0, 2.0], dtype=f64)
    z = (w * c).sum()
    written(c)
    assert_raises(RuntimeError, "has been modified by an inplace operation", z.backward)


def test_the_message_names_op_shape_and_line() -> None:
    x = leaf([[1.0, 2.0, 3.0]])
    y = x * 2
    z = y * y
    at = line() + 1
    y.add_(1.0)
    with pytest.raises(RuntimeError) as caught:
        z.sum().backward()
    for part in ("MulBackward0", "[1, 3]", f"{__file__}:{at}"):
        assert part in str(caught.value)


def test_a_tensor_that_is_gone_leaves_its_write_behind() -> None:
    x, c = leaf([1.0, 2.0]), ad.tensor([3.0, 4.0], dtype=f64)
    z = (x * c).sum()
    view = c[1:]
    del c
    view.add_(1.0)
    del view
    assert_raises(RuntimeError, "has been modified by an inplace operation", z.backward)


def test_what_is_not_needed_may_be_written() -> None:
    x = leaf([1.0, 2.0])
    y = x * 3
    y.add_(5.0)  # a product by a number keeps the number
    z = (y + 1) * 2
    y.zero_()
    z.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [6.0, 6.0])


def test_a_write_before_the_use_is_no_fault() -> None:
    x, c = leaf([1.0, 2.0]), ad.tensor([3.0, 4.0], dtype=f64)
    for _ in range(3):
        c.add_(1.0)
        (x * c).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [15.0, 18.0])


def test_a_write_after_backward_is_no_fault() -> None:
    x, c = leaf([1.0, 2.0]), ad.tensor([3.0, 4.0], dtype=f64)
    (x * c).sum().backward()
    c.add_(1.0)
    np.testing.assert_array_equal(x.grad.numpy(), [3.0, 4.0])


def test_new_memory_at_an_old_address_is_no_fault() -> None:
    x = leaf(np.ones(1000))
    for _ in range(200):
        c = ad.ones(1000, dtype=f64)
        z = (x * c).sum()
        other = ad.ones(1000, dtype=f64)
        other.add_(1.0)
        del other
        z.backward()
    assert x.grad.numpy()[0] == 200.0


def test_the_history_follows_the_write() -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    y = x * 3
    assert y.mul_(w) is y
    assert y.grad_fn.name() == "MulBackward0"
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [9.0, 12.0])
    np.testing.assert_array_equal(w.grad.numpy(), [3.0, 6.0])


@pytest.mark.parametrize("name", ["sin", "exp", "sigmoid", "tanh", "sqrt", "abs", "neg", "square"])
def test_in_place_twins_have_the_gradients_of_the_op(name: str) -> None:
    x = leaf([0.3, 0.7])
    (want,) = grad(getattr(ad, name)(x * 2).sum(), x)
    y = x * 2
    getattr(y, f"{name}_")()
    (got,) = grad(y.sum(), x)
    np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_a_constant_joins_the_graph() -> None:
    x, c = leaf([1.0, 2.0]), ad.tensor([3.0, 4.0], dtype=f64)
    c.mul_(x)
    assert (c.requires_grad, c.is_leaf) == (True, False)
    c.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [3.0, 4.0])


def test_versions_count_writes() -> None:
    t = ad.ones(2)
    assert t._version == 0
    t.add_(1.0)
    t[0] = 3.0
    assert (t._version, t.detach()._version) == (2, 2)


def test_the_recorded_writes_do_not_pile_up() -> None:
    from adjoint.core.tensor.mutation_log import mutation_log

    before = len(mutation_log.by_memory)
    for _ in range(100):
        ad.ones(3).add_(1.0)
    assert len(mutation_log.by_memory) == before
