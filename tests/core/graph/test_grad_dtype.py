"""`grad_dtype`: a leaf's gradient in another type than its own, or in any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import Function

torch = pytest.importorskip("torch")


class Widened(Function):
    """The identity, with a float64 gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.double()


class TorchWidened(torch.autograd.Function):  # type: ignore[misc]
    """The same in PyTorch."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.double()


PROGRAMS = [
    "x * 2", "x[0] + x[1]", "x[:1] * x[1:]", "widened(x)", "widened(x) + x", "x.expand(3, 2)", "x",
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("times", [1, 2])
def test_gradients_come_to_rest_in_it(program: str, kind: str, times: int) -> None:
    found = []
    for library, widened in ((ad, Widened.apply), (torch, TorchWidened.apply)):
        x = library.tensor([1.0, 2.0], requires_grad=True)
        x.grad_dtype = getattr(library, kind)
        seen: list[Any] = []
        x.register_hook(lambda g, seen=seen: seen.append(str(g.dtype).rpartition(".")[2]))
        for _ in range(times):
            eval(program, {"x": x, "widened": widened}).sum().backward()
        (again,) = library.autograd.grad(eval(program, {"x": x, "widened": widened}).sum(), x)
        found.append((x.grad.numpy(), again.detach().numpy(), seen))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs), strict=isinstance(ours, np.ndarray))


def test_none_takes_what_comes() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    x.grad_dtype = None
    assert x.grad_dtype is None
    Widened.apply(x).sum().backward()
    assert x.grad.dtype is ad.float64
    x.grad = ad.ones(2, dtype=ad.float16)
    (x[0] + x[1] + x[1]).backward()
    assert x.grad.dtype is ad.float16
    assert x.grad.tolist() == [2.0, 3.0]


def test_it_is_asked_for_before_the_gradient_is() -> None:
    x = ad.ones(2)
    assert x.grad_dtype is ad.float32
    x.grad_dtype = ad.float64
    x.requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.dtype is x.grad_dtype is ad.float64
    x.requires_grad_(False)
    assert x.requires_grad_().grad_dtype is ad.float64


def test_it_does_not_pass_to_other_tensors() -> None:
    x = ad.ones(2, requires_grad=True)
    x.grad_dtype = ad.float16
    assert x.detach().requires_grad_().grad_dtype is ad.float32
    x.data = ad.zeros(2)
    assert x.grad_dtype is ad.float16


def test_errors() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    with pytest.raises(RuntimeError, match="grad_dtype can only be accessed on leaf tensors"):
        _ = y.grad_dtype
    with pytest.raises(RuntimeError, match="grad_dtype can only be set on leaf tensors"):
        y.grad_dtype = ad.float16
    with pytest.raises(RuntimeError, match=r"grad_dtype must be an adjoint\.dtype or None, but got int"):
        x.grad_dtype = 3
    with pytest.raises(
        RuntimeError, match="assign a gradient with dtype 'float64' to a tensor with grad_dtype 'Float'"
    ):
        x.grad = ad.ones(2, dtype=ad.float64)
    x.grad = ad.ones(2)
    with pytest.raises(RuntimeError, match="Cannot set grad_dtype to 'Half' because there is already a gradient"):
        x.grad_dtype = ad.float16
    x.grad_dtype = ad.float32
