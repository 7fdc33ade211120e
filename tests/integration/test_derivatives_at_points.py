"""Single ops: derivatives at given points, conventions at kinks, ties, zeros and infinities."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import leaf, raises
from tests.support.oracle import same

import adjoint as ad
import adjoint.nn.functional as F


def slopes(f: Callable[..., Any], *points: Any) -> list[Any]:
    """The gradient of the sum of f at these points, one for each argument."""
    leaves = [leaf(p) for p in points]
    return [g.tolist() for g in ad.autograd.grad(f(*leaves).sum(), leaves)]


@pytest.mark.claim("1.9")
def test_add() -> None:
    assert slopes(lambda x, y: x + y, 2.0, 3.0) == [1.0, 1.0]


@pytest.mark.claim("1.10")
def test_mul() -> None:
    assert slopes(lambda x, y: x * y, 2.0, 3.0) == [3.0, 2.0]


@pytest.mark.claim("1.11")
def test_sub() -> None:
    assert slopes(lambda x, y: x - y, 2.0, 3.0) == [1.0, -1.0]


@pytest.mark.claim("1.12")
def test_max_binary() -> None:
    assert slopes(ad.maximum, 2.0, 3.0) == [0.0, 1.0]
    assert slopes(ad.minimum, 2.0, 3.0) == [1.0, 0.0]


@pytest.mark.claim("1.12")
def test_max_binary_tie() -> None:
    assert slopes(ad.maximum, 2.0, 2.0) == [0.5, 0.5]
    assert slopes(ad.minimum, 2.0, 2.0) == [0.5, 0.5]


@pytest.mark.claim("1.13")
def test_reciprocal() -> None:
    assert slopes(ad.reciprocal, 2.0) == [-0.25]


@pytest.mark.claim("1.14")
def test_sin() -> None:
    assert slopes(ad.sin, 2.0) == [-0.4161468365471424]


@pytest.mark.claim("1.15")
def test_log2() -> None:
    assert slopes(ad.log2, 2.0) == [pytest.approx(0.7213475204444817, rel=1e-15)]


@pytest.mark.claim("1.16")
def test_exp2() -> None:
    assert slopes(ad.exp2, 2.0) == [pytest.approx(2.772588722239781, rel=1e-15)]


@pytest.mark.claim("1.17")
def test_sqrt() -> None:
    assert slopes(ad.sqrt, 4.0) == [0.25]
    assert slopes(ad.sqrt, 0.0) == [math.inf]


@pytest.mark.claim("1.18")
def test_reshape() -> None:
    weight = ad.arange(6.0, dtype=ad.float64)
    assert slopes(lambda x: x.reshape(6) * weight, np.zeros((2, 3))) == [[[0, 1, 2], [3, 4, 5]]]


@pytest.mark.claim("1.18")
def test_permute() -> None:
    x = leaf(np.zeros((2, 3, 4)))
    g = ad.arange(24.0, dtype=ad.float64).reshape(4, 2, 3)
    x.permute(2, 0, 1).backward(g)
    assert ad.equal(x.grad, g.permute(1, 2, 0))


@pytest.mark.claim("1.18")
def test_expand() -> None:
    assert slopes(lambda x: x.expand(3, 4), np.zeros((3, 1))) == [[[4.0], [4.0], [4.0]]]


@pytest.mark.claim("1.18")
def test_pad() -> None:
    weight = ad.arange(12.0, dtype=ad.float64).reshape(2, 6)
    assert slopes(lambda x: F.pad(x, (1, 2)) * weight, np.zeros((2, 3))) == [[[1, 2, 3], [7, 8, 9]]]


@pytest.mark.claim("1.18")
def test_shrink() -> None:
    assert slopes(lambda x: x[:, 1:], np.zeros((2, 3))) == [[[0, 1, 1], [0, 1, 1]]]


@pytest.mark.claim("1.18")
def test_flip() -> None:
    weight = ad.arange(6.0, dtype=ad.float64).reshape(2, 3)
    assert slopes(lambda x: x.flip(1) * weight, np.zeros((2, 3))) == [[[2, 1, 0], [5, 4, 3]]]


@pytest.mark.claim("1.19")
def test_sum() -> None:
    weight = ad.tensor([2.0, 5.0], dtype=ad.float64)
    assert slopes(lambda x: x.sum(1) * weight, np.zeros((2, 3))) == [[[2.0] * 3, [5.0] * 3]]
    assert slopes(lambda x: x.sum(1, keepdim=True) * weight[:, None], np.zeros((2, 3))) == [[[2.0] * 3, [5.0] * 3]]


@pytest.mark.claim("1.20")
def test_max_ties_share() -> None:
    assert slopes(ad.max, [1.0, 3.0, 3.0]) == [[0.0, 0.5, 0.5]]
    assert slopes(lambda x: ad.amax(x, 0), [1.0, 3.0, 3.0]) == [[0.0, 0.5, 0.5]]
    assert slopes(lambda x: ad.max(x, 0).values, [1.0, 3.0, 3.0]) == [[0.0, 1.0, 0.0]]


@pytest.mark.claim("1.21")
def test_product() -> None:
    assert slopes(ad.prod, [2.0, 3.0, 4.0]) == [[12.0, 8.0, 6.0]]
    assert slopes(ad.prod, [2.0, 0.0, 3.0]) == [[0.0, 6.0, 0.0]]
    assert slopes(ad.prod, [0.0, 0.0, 3.0]) == [[0.0, 0.0, 0.0]]


@pytest.mark.claim("1.22")
def test_where() -> None:
    condition = ad.tensor([True, False, True])
    assert slopes(lambda x, y: ad.where(condition, x, y), [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]) == [[1, 0, 1], [0, 1, 0]]


@pytest.mark.claim("1.23")
def test_cast() -> None:
    x = leaf([1.5], ad.float32)
    (x.double() * 3).sum().backward()
    assert x.grad.dtype is ad.float32
    assert x.grad.tolist() == [3.0]


@pytest.mark.claim("1.24")
def test_contiguous() -> None:
    weight = ad.arange(6.0, dtype=ad.float64).reshape(3, 2)
    assert slopes(lambda x: x.t().contiguous() * weight, np.zeros((2, 3))) == [[[0, 2, 4], [1, 3, 5]]]


@pytest.mark.claim("1.25")
def test_detach() -> None:
    assert slopes(lambda x: x.detach() * x, 2.0) == [2.0]


@pytest.mark.claim("3.2")
def test_operand_used_twice() -> None:
    t0, t1 = leaf(np.zeros((2, 3, 4))), leaf(np.zeros((2, 3, 4)))
    ((t0 + t1) + t1).backward(ad.ones(2, 3, 4, dtype=ad.float64))
    assert bool((t0.grad == 1).all())
    assert bool((t1.grad == 2).all())


@pytest.mark.claim("3.3")
def test_predecessor_runs_once() -> None:
    t = leaf(np.zeros((2, 3, 4)))
    runs = []
    middle = t * 1
    middle.register_hook(lambda g: runs.append(g))
    (middle + middle).sum().backward()
    assert bool((t.grad == 2).all())
    assert len(runs) == 1


@pytest.mark.claim("3.6")
def test_broadcasting() -> None:
    shapes = [(1, 3, 4), (2, 1, 4), (2, 3, 1)]
    leaves = [leaf(np.zeros(shape)) for shape in shapes]
    (leaves[0] + leaves[1] + leaves[2]).sum().backward()
    for tensor, shape, count in zip(leaves, shapes, (2, 3, 4), strict=True):
        assert tensor.grad.shape == shape
        assert bool((tensor.grad == count).all())


@pytest.mark.claim("3.7")
@pytest.mark.parametrize("partner", [3, 4])
def test_broadcast_multiplicity(partner: int) -> None:
    x = leaf(np.zeros((1, 3, 4)))
    (x + ad.zeros(partner, 3, 4)).sum().backward()
    assert bool((x.grad == partner).all())


@pytest.mark.claim("3.8")
def test_intermediate_broadcast() -> None:
    def gradients(order: Callable[..., Any]) -> list[Any]:
        leaves = [leaf(np.zeros(shape)) for shape in [(1, 3, 4), (2, 1, 4), (2, 3, 1)]]
        order(*leaves).sum().backward()
        return [t.grad.tolist() for t in leaves]

    assert (leaf(np.zeros((1, 3, 4))) + leaf(np.zeros((2, 1, 4)))).shape == (2, 3, 4)
    assert gradients(lambda a, b, c: (a + b) + c) == gradients(lambda a, b, c: a + (b + c))


# Each expression also as PyTorch has it, by value and gradient.

E = np.zeros((0, 3))
ONE = np.array([[1.5]])


@pytest.mark.claim("P5")
@pytest.mark.parametrize(
    "expression",
    [
        "x * x", "x + x", "x * x.sum(0)", "x / x.mean(1, keepdim=True)", "x[[0, 0, 1]] * x[[1, 0, 0]]",
        "x.expand(4, 2, 3).sum(0) * x", "s * x", "s + s", "s * s * x.sum()", "e * e", "e.sum(0) + x",
        "(e + x[:1]).sum()", "e @ x.t()", "x[:0] * 2", "s.expand(2, 2) * s", "(x[None] * x[:, None]).sum((0, 1))",
        "x - x.t().mean()", "one * x", "(one + x) * s",
    ],
)  # fmt: skip
def test_broadcast_repeats_and_empties(expression: str) -> None:
    x = np.array([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]])
    same(expression, x=x, s=np.array(1.75), e=E, one=ONE, factor=10)


@pytest.mark.claim("P7")
@pytest.mark.parametrize(
    "expression",
    [
        "t.norm(z)", "t.norm(z, 3)", "t.norm(z, dim=0)", "t.std(z)", "t.abs(z)", "t.norm(z, 1)", "t.sqrt(z).sum()",
        "t.norm(z, inf)", "z.square().sum().sqrt()", "t.std(z, correction=0)", "t.norm(z, 2.5)",
    ],
)  # fmt: skip
def test_gradients_at_zero_are_pytorchs(expression: str) -> None:
    same(expression, z=np.zeros(3))


@pytest.mark.claim("P7")
def test_slopes_of_norms_and_roots_at_zero() -> None:
    zeros = [0.0, 0.0]
    assert slopes(ad.norm, zeros) == slopes(ad.std, zeros) == slopes(ad.abs, zeros) == [zeros]
    assert slopes(ad.sqrt, zeros) == [[math.inf, math.inf]]


@pytest.mark.claim("P8")
@pytest.mark.parametrize(
    "f",
    [
        ad.max, ad.min, ad.amax, ad.amin, lambda x: ad.max(x, 0).values, lambda x: ad.norm(x, math.inf),
    ],
)  # fmt: skip
def test_tied_gradients_sum_to_one(f: Any) -> None:
    assert sum(slopes(f, [3.0, 3.0, 3.0, 3.0])[0]) == 1.0


@pytest.mark.claim("P9")
def test_logsumexp_is_exact_where_it_is_large() -> None:
    x = leaf([1000.0, 1000.0], ad.float32)
    y = ad.logsumexp(x, 0)
    y.backward()
    assert y.item() == np.float32(1000 + math.log(2))
    assert x.grad.tolist() == [0.5, 0.5]


@pytest.mark.claim("P9")
@pytest.mark.parametrize(
    "values",
    [
        [-np.inf] * 3, [np.inf] * 3, [np.inf, 0.0, 1.0], [-np.inf, 0.0, 1.0], [1e4, -1e4, 0.0], [np.nan, 0.0, 1.0],
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "expression",
    [
        "t.logsumexp(x, 0)", "t.softmax(x, 0)", "t.log_softmax(x, 0)", "t.nn.functional.logsigmoid(x)", "t.sigmoid(x)",
    ],
)  # fmt: skip
def test_exponentials_and_logarithms_of_extremes(expression: str, values: Any) -> None:
    array = np.array(values)
    same(expression, x=array, gradient=False, factor=10)
    same(expression, x=array.astype(np.float32), gradient=False, factor=10)


@pytest.mark.claim("P10")
@pytest.mark.parametrize(
    "expression",
    [
        "x ** 0", "x ** 2", "x ** 1", "x ** 3.0", "0.0 ** x.abs()", "x ** y", "t.pow(2.0, x)", "x.abs() ** y",
        "y ** x.abs()",
    ],
)  # fmt: skip
def test_powers_are_pytorchs(expression: str) -> None:
    same(expression, x=np.array([0.0, 1.0, 2.0]), y=np.array([0.0, 2.0, 1.0]))


@pytest.mark.claim("P10")
def test_slopes_of_powers_at_zero() -> None:
    assert slopes(lambda x: x**0, [0.0, math.nan]) == [[0.0, 0.0]]
    assert slopes(lambda x: x**2, [0.0]) == [[0.0]]
    assert slopes(lambda x: 0.0**x, [2.0]) == [[0.0]]
    assert slopes(lambda x, y: x**y, [0.0], [0.0]) == [[0.0], [0.0]]


@pytest.mark.claim("P11")
@pytest.mark.parametrize(
    "expression",
    [
        "t.maximum(x, y)", "t.minimum(x, y)", "t.relu(x)", "t.clamp(x, -1, 1)", "t.max(x)", "t.amin(x)",
        "t.clamp(x, y, z)",
    ],
)  # fmt: skip
def test_nan_is_kept(expression: str) -> None:
    x, y, z = np.array([np.nan, 1.0, 2.0]), np.array([0.0, np.nan, 1.0]), np.array([5.0, 5.0, 5.0])
    same(expression, x=x, y=y, z=z, gradient=False)


@pytest.mark.claim("P16")
def test_integers() -> None:
    raises(RuntimeError, "only Tensors of floating point dtype can require gradients", ad.tensor([1, 2]).requires_grad_)
    raises(RuntimeError, "ZeroDivisionError", lambda: ad.tensor([1]) // ad.tensor([0]))
    assert ad.tensor([200, 100], dtype=ad.uint8).sum().item() == 300
    assert ad.tensor([True, True]).sum().dtype is ad.int64


@pytest.mark.claim("P17")
@pytest.mark.parametrize(
    "read",
    [
        "x[3]", "x[-4]", "x[ad.tensor([3])]", "x[[0, -4]]", "ad.index_select(x, 0, ad.tensor([3]))",
    ],
)  # fmt: skip
def test_index_out_of_range(read: str) -> None:
    raises(IndexError, r"out of (bounds|range)", lambda: eval(read, {"ad": ad, "x": ad.ones(3)}))
