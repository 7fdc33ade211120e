"""Writing in place: values, versions, what is refused, and that backward never uses a value that was overwritten."""

from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises
from tests.support.oracle import same, same_error

import adjoint as ad

X = np.array([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]])
Y = np.array([1.5, -0.5, 2.0])

WRITES = [
    "y.add_(v)", "y.add_(1)", "y.sub_(v, alpha=2)", "y.mul_(v)", "y.div_(v)", "y.pow_(2)", "y.exp_()", "y.neg_()",
    "y.abs_()", "y.sqrt_()", "y.clamp_(0, 1)", "y.clamp_(min=0.5)", "y.relu_()", "y.sigmoid_()", "y.tanh_()",
    "y.addcmul_(v, v, value=2)", "y.addcdiv_(v, v)", "y.lerp_(v.expand(2, 3), 0.25)", "y.masked_fill_(m, 3.0)",
    "y.round_()", "y.floor_()", "y.reciprocal_()", "y.square_()", "y.fill_(2)", "y.zero_()", "y.copy_(v)", "y.tril_()",
    "y.triu_(1)", "y.sin_()", "y.eq_(v)", "y.logical_not_()", "y.fmod_(2)", "y.remainder_(v)",
]  # fmt: skip
AUGMENTED = ["+=", "-=", "*=", "/=", "**=", "//=", "%="]


@pytest.mark.parametrize("write", WRITES)
def test_values_and_version(write: str) -> None:
    program = f"[y := x.clone(), {write} is y, y, y._version][1:]"
    same(program, x=np.abs(X) + 0.1, v=Y, m=X > 0, gradient=False, factor=10)


@pytest.mark.parametrize(
    "write",
    [w for w in WRITES if not any(n in w for n in ("round", "floor", "eq_", "logical", "fmod"))],
)
def test_gradients_through_writes(write: str) -> None:
    same(f"[y := x * 1.0, {write}, y * 2][2]", x=np.abs(X) + 0.1, v=np.abs(Y), m=X > 0, factor=10)


@pytest.mark.parametrize("operator", AUGMENTED)
def test_augmented_assignment(operator: str) -> None:
    x = ad.tensor(np.abs(X))
    y = x
    exec(f"y {operator} 2", {}, names := {"y": y})
    assert names["y"] is x
    assert x._version == 1
    assert ad.equal(x, eval(f"a {operator[:-1]} 2", {"a": ad.tensor(np.abs(X))}))


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("x.add_(t.ones(4, 2, 3))", "doesn't match the broadcast shape [4, 2, 3]"),
        (
            "x.add_(t.ones(4))",
            "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
        ),
        ("i.add_(1.5)", "can't be cast to the desired output type"),
        ("i.div_(2)", "can't be cast to the desired output type"),
        (
            "x[0].expand(2, 3).add_(1)",
            "more than one element of the written-to tensor refers to a single memory location",
        ),
        ("x.requires_grad_().add_(1)", "a leaf Variable that requires grad is being used in an in-place operation."),
        ("x.requires_grad_().zero_()", "a leaf Variable that requires grad is being used in an in-place operation."),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, x=X, i=np.array([1, 2]))


def test_a_refused_write_changes_nothing() -> None:
    x = ad.ones(3)
    with pytest.raises(RuntimeError):
        x.add_(ad.ones(2, 3))
    assert (x.tolist(), x._version) == ([1.0, 1.0, 1.0], 0)


@pytest.mark.claim("P1")
@pytest.mark.parametrize("make", [
    "y * y", "y * 1 * y", "y.sigmoid() * y", "y ** 3", "y.sin()", "y.tanh().mul(y)", "(y @ y.t())",
])  # fmt: skip
@pytest.mark.parametrize("write", [
    "y.add_(5)", "y.view(-1).add_(5)", "y[0].add_(5)", "y.t().mul_(2)", "y.detach().add_(5)", "y.data.add_(5)",
    "with ad.no_grad(): y.add_(5)", "with ad.no_grad(): y[0] = 5", "y.detach()[1:] = 5", "y.detach().zero_()",
])  # fmt: skip
def test_saved_values_that_were_overwritten_raise(make: str, write: str) -> None:
    """Either the write is refused, or backward says so; it never gives a wrong gradient in silence."""
    x = ad.tensor(X + 2, requires_grad=True)
    names: dict[str, Any] = {"ad": ad, "y": x * 1}
    out = eval(make, names)
    try:
        exec(write, names)
    except RuntimeError as refused:
        assert "clone() it first" in str(refused)  # noqa: PT017  both outcomes are right
        return
    assert_raises(RuntimeError, "modified by an inplace operation", lambda: out.sum().backward())


@pytest.mark.parametrize("op", ["exp", "sigmoid", "tanh", "sqrt", "relu"])
def test_overwritten_output_raises(op: str) -> None:
    x = ad.tensor(np.abs(X), requires_grad=True)
    y = getattr(x, op)()
    z = y * 1
    y.add_(5)
    assert_raises(RuntimeError, "modified by an inplace operation", lambda: z.sum().backward())


def test_a_write_before_use_is_right() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.add_(1)
    (y * y).sum().backward()
    assert x.grad.tolist() == [24.0, 42.0]


def test_a_write_keeps_what_its_own_computation_needs() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    y.mul_(y)
    y.pow_(2)
    y.sin_()
    (g,) = ad.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(g.numpy(), [4 * np.cos(1), 4 * 8 * np.cos(16)], rtol=1e-5)


@pytest.mark.claim("P4")
@pytest.mark.parametrize(("expression", "expected"), [
    ("x[1:].add_(x[:-1])", [1, 3, 5, 7]), ("x[:-1].add_(x[1:])", [3, 5, 7, 4]), ("x.copy_(x.flip(0))", [4, 3, 2, 1]),
    ("x[::2].copy_(x[1::2])", [2, 2, 4, 4]), ("x[1:].copy_(x[:-1].clone())", [1, 1, 2, 3]),
    ("x[1:].copy_(x[:-1])", [1, 1, 2, 3]),
])  # fmt: skip
def test_overlapping_memory(expression: str, expected: list[int]) -> None:
    """The right side is read as it was before the write."""
    x = ad.tensor([1.0, 2.0, 3.0, 4.0])
    eval(expression, {"x": x})
    assert x.tolist() == expected
