"""The tensor itself: properties, leaves, gradients' slot, Python's protocols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises
from tests.support.oracle import same, same_error

import adjoint as ad
from adjoint import Tensor

X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "expression",
    [
        "tuple(x.shape)", "x.ndim", "x.dim()", "tuple(x.size())", "x.size(1)", "x.size(-1)", "x.numel()",
        "x.element_size()", "x.stride()", "x.t().stride()", "x.stride(0)", "x.is_contiguous()", "x.t().is_contiguous()",
        "x.requires_grad", "x.is_leaf", "(x * 2).is_leaf", "x.grad", "x.grad_fn", "x.is_floating_point()", "len(x)",
        "[r.tolist() for r in x.detach()]", "x.tolist()", "x.dtype == t.float64", "x.device == t.device('cpu')",
        "str(x.device)", "x.data.requires_grad", "x.shape.numel()", "x.shape[1:] == (3,)", "x.retains_grad",
        "bool(x[0, 1] > 0)", "x[0, 1].item()", "int(x[1, 0])", "float(x[1, 1])", "hash(x) == hash(x)", "x.output_nr",
        "x.T is x",
    ],
)  # fmt: skip
def test_properties(expression: str) -> None:
    same(expression, x=X)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("len(t.tensor(1.0))", "len() of a 0-d tensor"),
        ("iter(t.tensor(1.0))", "iteration over a 0-d tensor"),
        ("x.item()", "a Tensor with 6 elements cannot be converted to Scalar"),
        ("bool(x)", "Boolean value of Tensor with more than one value is ambiguous"),
        ("bool(x[:0])", "Boolean value of Tensor with no values is ambiguous"),
        (
            "(x.requires_grad_() * 2).requires_grad_(False)",
            "you can only change requires_grad flags of leaf variables.",
        ),
        ("x.long().requires_grad_()", "require gradients"),
        ("x.retain_grad()", "can't retain_grad on Tensor that has requires_grad=False"),
        ("setattr(x, 'grad', t.ones(3, dtype=t.float64))", " size"),
        ("setattr(x, 'grad', 1.0)", "assigned grad expected to be a Tensor or None but got"),
        ("[10, 20][x[0, 0]]", "only integer tensors of a single element can be converted to an index"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, x=X)


def test_size() -> None:
    shape = ad.zeros(2, 3).shape
    assert shape == (2, 3)
    assert isinstance(shape, tuple)
    assert repr(shape) == "adjoint.Size([2, 3])"
    assert shape.numel() == 6
    assert ad.Size([]).numel() == 1
    assert ad.Size([ad.tensor(3), np.int64(2), True]) == (3, 2, 1)
    for wrong in (ad.ones(3), [1.5], ["a"], [None]):
        raises(TypeError, r"Size\(\) takes an iterable of 'int' \(item 0 is '", ad.Size, wrong)
    assert ad.empty(2, 0).data_ptr() == ad.ones(2, 2)[0:0].data_ptr() == 0


def test_device() -> None:
    cpu = ad.device("cpu")
    assert cpu == ad.device(cpu) != ad.device("cpu:0")
    assert (cpu.type, cpu.index, str(cpu), repr(cpu)) == ("cpu", None, "cpu", "device(type='cpu')")
    assert hash(cpu) == hash(ad.device("cpu"))
    assert ad.zeros(1, device="cpu:0").device == cpu
    assert repr(ad.device("cuda", 1)) == "device(type='cuda', index=1)"
    with pytest.raises(RuntimeError, match="device 'cuda': adjoint computes on the CPU only"):
        ad.zeros(1, device=ad.device("cuda"))


def test_wrapping_shares_memory() -> None:
    array = np.zeros(3, np.float32)
    assert np.shares_memory(Tensor(array).numpy(), array)
    assert Tensor(array, requires_grad=True).requires_grad


@pytest.mark.parametrize(
    "call",
    [
        "t.Tensor()", "t.Tensor(2, 3)", "t.Tensor(5)", "t.Tensor(t.Size([2, 1]))", "t.Tensor(t.Size([]))",
        "t.Tensor([1, 2])", "t.Tensor(((1, 2), (3, 4)))", "t.Tensor([])", "t.Tensor(np.array([1, 2]))",
        "t.Tensor(np.ones((2, 2)))", "t.Tensor(range(3))", "t.Tensor([True])", "t.Tensor(data=[1, 2])",
        "t.Tensor(t.tensor([1, 2]))", "t.Tensor(t.tensor([1.0, 2.0]).double())", "t.Tensor([1], device='cpu')",
    ],
)  # fmt: skip
def test_the_constructor_makes_what_pytorch_makes(call: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = (eval(call, {"t": t, "np": np}) for t in (ad, torch))
    assert (str(ours.dtype).rpartition(".")[2], ours.shape) == (str(theirs.dtype).rpartition(".")[2], theirs.shape)
    if ".Tensor(2, 3)" not in call and "Size" not in call and "(5)" not in call:  # PyTorch leaves these as they are
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("given", [(1.5,), (True,), (np.float64(3),), ([1 + 2j],), ("a",), ([1], [2])])
def test_the_constructor_refuses(given: tuple[Any, ...]) -> None:
    raises(TypeError, r"new\(\): ", lambda: Tensor(*given))


def test_requires_grad_is_switched_on_and_off() -> None:
    x = ad.ones(2)
    x.requires_grad = True
    assert x.requires_grad_() is x
    assert x.requires_grad
    x.requires_grad = False
    assert not x.requires_grad


def test_grad_slot() -> None:
    x = ad.ones(2, requires_grad=True)
    x.grad = ad.zeros(2)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    del x.grad
    assert x.grad is None
    with pytest.raises(RuntimeError, match="assign a gradient with dtype 'float64'"):
        x.grad = ad.zeros(2, dtype=ad.float64)
    with pytest.raises(RuntimeError, match="can't assign a Tensor as its own grad"):
        x.grad = x


def test_grad_of_a_non_leaf_warns() -> None:
    y = ad.ones(2, requires_grad=True) * 2
    with pytest.warns(UserWarning, match="is not a leaf Tensor"):
        assert y.grad is None
    y.retain_grad()
    assert y.retains_grad
    assert y.grad is None


def test_detach() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    z = y.detach()
    assert not z.requires_grad
    assert np.shares_memory(z.numpy(), y.detach().numpy())
    assert y.detach_() is y
    assert y.is_leaf
    assert not y.requires_grad


def test_attributes_of_ones_own() -> None:
    x: Any = ad.ones(2)
    x.label = "weights"
    assert x.label == "weights"


def test_numpy_gives_way_to_tensors() -> None:
    array, x = np.array([1.0, 2.0]), ad.tensor([3.0, 4.0], dtype=ad.float64)
    for out in (array + x, array * x, array - x, array / x, array < x):
        assert type(out) is Tensor
    assert (np.float64(2.0) * x).tolist() == [6.0, 8.0]


def test_dir_lists_what_there_is() -> None:
    x = ad.ones(2, 2)
    listed = set(dir(x)) - {"imag", "volatile"}
    assert {"shape", "grad_dtype", "node"} <= listed
    assert all(hasattr(x, name) for name in listed)
    assert "_detach_record" in dir((x.requires_grad_() * 2).detach())
