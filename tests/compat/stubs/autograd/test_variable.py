"""`Variable`, as old programs use it."""

from __future__ import annotations

from typing import Any

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
