"""Other types, and values written as a whole: against PyTorch."""

import copy
import pickle

import numpy as np
import pytest
from tests.support.errors import assert_raises
from tests.support.oracle import same, same_error

import adjoint as ad

X = np.array([[0.5, -1.5, 2.0], [300.0, -0.0, 7.25]])
WHOLE = np.array([3, 0, -2])
B = np.array([True, False, True])


@pytest.mark.parametrize("name", ["float", "double", "half", "int", "long", "short", "bool"])
@pytest.mark.parametrize("source", ["x", "i", "b"])
def test_named_conversions(name: str, source: str) -> None:
    same(f"{source}.{name}()", x=X, i=WHOLE, b=B)


@pytest.mark.parametrize("expression", [
    "x.to(t.float32)", "x.to(dtype=t.float16)", "x.to('cpu')", "x.to(t.device('cpu'), t.float32)",
    "x.to('cpu', dtype=t.int64)", "i.to(x)", "x.to(i)", "x.to(t.float64) is x", "x.to(t.float64, copy=True) is x",
    "x.to(t.float32, non_blocking=True)", "x.type_as(i)", "x.cpu() is x", "x.to(t.float32).sum()",
    "(x.float() * 3).double()", "x.double() is x", "b.to(t.float32)", "i.to(t.bool)", "i.to(t.complex64)",
    "x.long().double()", "i.char()", "i.abs().byte()",
])  # fmt: skip
def test_to(expression: str) -> None:
    same(expression, x=X, i=WHOLE, b=B, factor=10)


def test_gradient_takes_the_type_of_the_leaf() -> None:
    x = ad.tensor([1.5, 2.5], requires_grad=True)
    (x.double() * ad.tensor([2.0, 3.0], dtype=ad.float64)).sum().backward()
    assert (x.grad.dtype, x.grad.tolist()) == (ad.float32, [2.0, 3.0])


def test_gradient_ends_at_integers() -> None:
    x = ad.tensor([1.5], requires_grad=True)
    assert not x.long().requires_grad
    assert not x.long().float().requires_grad


@pytest.mark.parametrize("expression", [
    "y.copy_(x)", "y.copy_(i)", "y.copy_(x[0])", "y.fill_(3)", "y.fill_(t.tensor(2.5))", "y.zero_()",
    "i.fill_(2.7)", "b.fill_(5)", "y.copy_(t.tensor(1.5))", "i.copy_(t.tensor([1.9, -1.9, 0.0]))",
    "y.t().copy_(x.t())", "y[0].fill_(7)", "y.copy_(y.flip(0))",
])  # fmt: skip
def test_written_values(expression: str) -> None:
    same(f"[y := x.clone(), {expression}, y, y._version, i._version][1:]", x=X, i=WHOLE, b=B, gradient=False)


@pytest.mark.parametrize("expression", [
    "y.zero_()", "y.fill_(3)", "y.copy_(t.ones(3, dtype=t.float64))", "y.copy_(w)", "y.mul_(0).add_(w)",
])  # fmt: skip
def test_what_is_replaced_gets_no_gradient(expression: str) -> None:
    same(f"[y := x * 2, {expression}, y * y][2]", x=X, w=np.array([1.0, 2.0, 3.0]))


def test_replaced_tensor_stays_in_the_graph() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    y.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("expression", "head"), [
    ("x.copy_(t.ones(4))", "must match the"), ("x.to('cuda:9')", ""), ("x.to('nonsense')", ""),
    ("x.fill_(t.ones(2))", ""),
])  # fmt: skip
def test_errors(expression: str, head: str) -> None:
    if "cuda" in expression:
        assert_raises(RuntimeError, "CPU only", lambda: ad.tensor(X).to("cuda:9"))
        return
    same_error(expression, head, x=X)


def test_numbers_of_one_element() -> None:
    x = ad.tensor([2.75])
    assert (x.item(), float(x), int(x), bool(x), complex(x)) == (2.75, 2.75, 2, True, 2.75 + 0j)
    assert [10, 20, 30][ad.tensor(1)] == 20
    assert f"{ad.tensor(2.5):.3f}" == "2.500"
    assert_raises(RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar", lambda: ad.ones(2).item())
    for read in (complex, float, int):
        with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
            read(ad.ones(2))
    with pytest.raises(TypeError, match="only integer tensors of a single element can be converted to an index"):
        [10, 20, 30][ad.tensor([1, 2])]
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(ad.ones(2))
    assert_raises(RuntimeError, "Boolean value of Tensor with no values is ambiguous", lambda: bool(ad.ones(0)))


def test_numpy() -> None:
    x = ad.ones(2, requires_grad=True)
    assert_raises(RuntimeError, r"Can't call numpy\(\) on Tensor that requires grad", x.numpy)
    assert np.shares_memory(x.detach().numpy(), x.numpy(force=True))
    assert np.asarray(x.detach()).tolist() == [1.0, 1.0]
    assert np.array(x.detach(), dtype=np.float64).dtype == np.float64
    assert ad.tensor([[1, 2]]).tolist() == [[1, 2]]


def test_copies_of_python() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    twin = copy.deepcopy(x)
    assert twin.requires_grad
    assert twin.is_leaf
    assert twin.grad.tolist() == [2.0, 4.0]
    with ad.no_grad():
        twin.add_(1)
    assert x.tolist() == [1.0, 2.0]
    assert_raises(RuntimeError, "graph leaves", lambda: copy.deepcopy(x * 2))
    back = pickle.loads(pickle.dumps(x))
    assert back.tolist() == [1.0, 2.0]
    assert back.requires_grad
