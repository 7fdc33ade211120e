"""`Variable`, as older programs use it, and writes that do not count."""

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import Variable


def test_a_variable_is_a_tensor_over_the_memory_of_its_data() -> None:
    data = ad.zeros(2)
    x = Variable(data, requires_grad=True)
    assert type(x) is ad.Tensor
    assert x.requires_grad
    assert not data.requires_grad
    data.add_(1.0)
    assert x.tolist() == [1.0, 1.0]


def test_every_tensor_is_an_instance() -> None:
    assert isinstance(ad.ones(1), Variable)
    assert not isinstance(1.0, Variable)


def test_callbacks_run_after_the_pass() -> None:
    x = Variable(ad.ones(2), requires_grad=True)
    log: list[Any] = []
    y = x * 2
    y.register_hook(lambda g: Variable._execution_engine.queue_callback(lambda: log.append(x.grad is not None)))
    y.sum().backward()
    assert log == [True]


def test_writes_in_the_block_do_not_count() -> None:
    x = ad.ones(2, requires_grad=True).clone()
    x.add_(1)
    y = x.exp()
    with ad.autograd._unsafe_preserve_version_counter((x, y)):
        x.mul_(2)
        with ad.no_grad():
            y.fill_(3.0)
    assert (x._version, y._version) == (1, 0)
    y.sum().backward()  # takes the 3 for exp(x), as asked


def test_writes_after_the_block_count_again() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x.exp()
    with ad.autograd._unsafe_preserve_version_counter(y), ad.no_grad():
        y.fill_(3.0)
    with ad.no_grad():
        y.fill_(4.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_views_are_replayed() -> None:
    assert ad.autograd.is_view_replay_enabled()
    with ad.autograd._force_original_view_tracking(False):
        x = ad.ones(2, 2, requires_grad=True).clone()
        row = x[0]
        x.mul_(2)
    assert row.grad_fn.name() == "SelectBackward0"
    np.testing.assert_array_equal(row.detach().numpy(), [2.0, 2.0])
