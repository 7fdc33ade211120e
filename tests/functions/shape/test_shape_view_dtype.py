"""`view` with a dtype: PyTorch's bits, shapes and errors; one memory, no gradient, compiled as eager."""

from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad

NAMES = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128", "bool"]


@pytest.mark.parametrize("old", NAMES)
@pytest.mark.parametrize("new", NAMES)
def test_bits_and_shapes_are_pytorchs(old: str, new: str) -> None:
    torch = pytest.importorskip("torch")
    given = (np.arange(96).reshape(2, 3, 16) % 2).astype(old)
    ours = ad.tensor(given).view(getattr(ad, new))
    theirs = torch.tensor(given).view(getattr(torch, new))
    assert ours.dtype is getattr(ad, new)
    assert (ours.shape, ours.numpy().tobytes()) == (tuple(theirs.shape), theirs.numpy().tobytes())


@pytest.mark.parametrize("call", [
    lambda t: t.ones(()).view(t.int16), lambda t: t.ones(4, 4).T.view(t.int8),
    lambda t: t.ones(4, 4)[:, ::2].view(t.float64), lambda t: t.ones(3, 3).view(t.float64),
    lambda t: t.ones(4, 4)[:, 1:3].view(t.float64), lambda t: t.ones(3, 3)[:, :2].view(t.float64),
])  # fmt: skip
def test_what_cannot_be_is_refused_for_pytorchs_reason(call: Any) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError) as theirs:
        call(torch)
    reason = str(theirs.value).partition(" to view")[0].replace("(", r"\(").replace(")", r"\)")
    assert_raises(RuntimeError, f"^{reason} to view float32", call, ad)


def test_memory_is_shared() -> None:
    x = ad.zeros(2, 2)
    bits = x.view(dtype=ad.int32)
    bits[0] = 0x3F800000
    assert (x.tolist(), x.T.view(ad.int32).tolist()) == ([[1.0, 1.0], [0.0, 0.0]], bits.T.tolist())


def test_no_gradient_flows() -> None:
    x = ad.ones(4, requires_grad=True)
    assert not x.view(ad.float64).requires_grad
    assert not x.view(ad.float32).requires_grad


def test_compiled_as_eager() -> None:
    x = ad.arange(1, 5, dtype=ad.float32)

    def step(x: Any) -> Any:
        y = x * 1.0
        y.view(ad.int32).add_(1)
        return y, x.view(ad.int16)

    for ours, theirs in zip(ad.compile(step)(x), step(x), strict=True):
        assert ours.tolist() == theirs.tolist()


def test_examples_of_a_batch() -> None:
    x = ad.arange(6, dtype=ad.float32).view(2, 3)
    assert ad.vmap(lambda row: row.view(ad.int32))(x).tolist() == x.view(ad.int32).tolist()


def test_other_values_are_no_shape() -> None:
    assert_raises(TypeError, "'str' object cannot be interpreted as an integer", lambda: ad.ones(3).view("float32"))


def test_nothing_is_seen_as_another_type() -> None:
    torch = pytest.importorskip("torch")
    for shape in ((0,), (3, 0, 4), (2, 0)):
        assert ad.ones(shape).view(ad.uint8).shape == tuple(torch.ones(shape).view(torch.uint8).shape)


def test_types_of_python_and_numpy_are_types() -> None:
    x = ad.ones(2, dtype=ad.complex128)
    assert x.view(float).tolist() == [1.0, 0.0, 1.0, 0.0]
    assert ad.ones(2).view(np.int32).dtype is ad.int32
    with pytest.raises(TypeError, match="no tensor can hold elements of type"):
        x.view(str)
