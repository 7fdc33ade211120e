"""Writing, adding and folding at positions against PyTorch: values, gradients, node names, errors."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error, same_node

import adjoint as ad
import adjoint.nn.functional as F

torch = pytest.importorskip("torch")

X = np.cos(np.arange(12.0)).reshape(3, 4)
Y = np.sin(np.arange(12.0)).reshape(3, 4)
WHOLE = np.array([[0, 2, 1, 0], [2, 2, 0, 1]])
J = np.array([[2, 0, 1, 0], [0, 2, 0, 1]])  # no column names a row twice
R = np.array([2, 0])
RR = np.array([1, 1, 2])
K = np.array([[True, False, True, True], [False] * 4, [False, True, False, True]])
S = np.array(1.5)
V = np.arange(6.0)
Z = np.array([[0.0, 2.0, 0.0, 3.0], [1.0, 0.0, 0.0, 4.0], [5.0, 6.0, 0.0, 7.0]])
GIVEN = {"x": X, "y": Y, "i": WHOLE, "j": J, "r": R, "rr": RR, "k": K, "s": S, "v": V, "z": Z}


@pytest.mark.parametrize("expression", [
    "x.scatter(0, j, y[:2])", "t.scatter(x, 0, j[:1], y[:1])", "x.scatter(1, t.tensor([[3], [0]]), y[:2, :1])",
    "x.scatter(0, j, 2.5)", "x.scatter(0, j, value=-1)", "(x * 1).scatter_(0, j, y[:2])",
    "s.scatter(0, t.tensor(0), s)", "x.detach().scatter(0, i, y[:2].detach(), reduce='add')",
    "x.detach().scatter(0, i, y[:2].detach(), reduce='multiply')", "x.scatter(0, i[:0], y[:0])",
    "x.scatter_add(0, i, y[:2])", "(x * 2).scatter_add_(0, i, y[:2])", "x.index_add(0, rr, y)",
    "x.index_add(1, r, y[:, :2], alpha=3)", "t.index_add(x, 0, r, y[1:])", "(x * 1).index_add_(0, rr, y)",
    "x.index_copy(0, r, y[:2])", "x.index_copy(1, r, y[:, 1:3])", "(x * 1).index_copy_(0, r, y[:2])",
    "x.index_fill(0, r, 2)", "x.index_fill(0, r - 3, 2)",
    "x.index_fill(1, r, s)", "(x * 1).index_fill_(0, rr, -1)", "x.masked_scatter(k, v)",
    "x.masked_scatter(k[0], y)", "(x * 1).masked_scatter_(k, y)", "x.take(t.tensor([[0, 11], [3, 3]]))",
    "t.take(x, t.tensor(5))", "x.take(t.tensor([-1]))", "x.put(t.tensor([1, 5]), v[:2])",
    "x.put(t.tensor([[1, 1]]), v[:2], True)", "(x * 1).put_(r, v[:2])", "x.index_put((r, rr[:2]), v[:2])",
    "x.index_put((k,), s)", "x.index_put((rr,), v[:4], accumulate=True)", "x.index_put((rr[:2],), y[:2])",
    "(x * 1).index_put_((t.tensor(1),), v[:4])", "t.index_put(x, (rr, rr), s, True)",
])  # fmt: skip
def test_writing(expression: str) -> None:
    same(expression, **GIVEN)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize(
    "form", ["x.scatter_reduce(0, i, y[:2]{}", "z.scatter_reduce(0, i, z[:2]{}", "x.scatter_reduce(1, i, y[:2]{}"]
)
def test_scatter_reduce(form: str, reduce: str, include_self: bool) -> None:
    if form.startswith("z") and reduce.startswith("a") and not include_self:
        return  # see test_what_is_not_included_takes_no_share
    same(form.format(f", '{reduce}', include_self={include_self})"), **GIVEN)


@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize(
    "form", ["x.index_reduce(0, rr, y{}", "z.index_reduce(0, rr, z{}", "x.index_reduce(1, r, y[:, :2]{}"]
)
def test_index_reduce(form: str, reduce: str, include_self: bool) -> None:
    if form.startswith("z") and reduce.startswith("a") and not include_self:
        return  # see test_what_is_not_included_takes_no_share
    same(form.format(f", '{reduce}', include_self={include_self})"), **GIVEN)


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_what_is_not_included_takes_no_share(reduce: str) -> None:
    """PyTorch gives half of the gradient to an element that was left out, if it happens to equal the extreme."""
    x = ad.tensor([3.0], requires_grad=True)
    y = ad.tensor([3.0], requires_grad=True)
    x.scatter_reduce(0, ad.tensor([0]), y, reduce, include_self=False).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.0], [1.0])  # type: ignore[union-attr]


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce_of_integers(reduce: str) -> None:
    same(f"i.scatter_reduce(0, t.tensor([[1, 1, 1, 0]]), j, '{reduce}')", **GIVEN)
    same(f"i.scatter_reduce(0, t.tensor([[1, 1, 1, 0]]), j, '{reduce}', include_self=False)", **GIVEN)


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize(("zeros", "own"), [(0, 0.0), (1, 0.0), (1, 2.0), (2, 2.0), (2, 0.0), (3, 3.0)])
@pytest.mark.parametrize("shape", [(4,), (4, 2), (2, 4, 3)])
def test_products_are_differentiated_where_several_zeros_meet(
    shape: tuple[int, ...], zeros: int, own: float, include_self: bool
) -> None:
    axis = shape.index(4)
    numbers = np.random.default_rng(0).uniform(0.5, 2.0, shape)
    x, source = (ad.tensor(v, requires_grad=True) for v in (numbers, numbers[::-1].copy()))
    with ad.no_grad():
        x.select(axis, 1).fill_(own)
        source.narrow(axis, 0, zeros).zero_()
    places = ad.tensor([1, 1, 1, 3]).reshape([4 if d == axis else 1 for d in range(len(shape))]).expand(*shape)

    def product(x: ad.Tensor, source: ad.Tensor) -> ad.Tensor:
        return x.scatter_reduce(axis, places, source, "prod", include_self=include_self)

    assert ad.autograd.gradcheck(product, (x, source), check_forward_ad=True)
    assert ad.autograd.gradgradcheck(product, (x, source))


def test_slopes_of_a_product_of_two_zeros() -> None:
    x, source = ad.tensor([0.0, 13.0, 5.0]), ad.tensor([0.0, 2.0, 3.0])
    places = ad.tensor([0, 0, 1])
    ones = ad.ones(3)
    tangent = ad.func.jvp(lambda a, b: a.scatter_reduce(0, places, b, "prod"), (x, source), (ones, ones))[1]
    assert tangent.tolist() == [0.0, 16.0, 1.0]  # 0 · 0 · 2, 13 · 3 and 5: each factor in turn replaced by 1, added
    out = x.requires_grad_().scatter_reduce(0, places, source.requires_grad_(), "prod")
    first = ad.autograd.grad(out.sum(), (x, source), create_graph=True)
    assert [g.tolist() for g in first] == [[0.0, 3.0, 1.0], [0.0, 0.0, 13.0]]
    second = ad.autograd.grad(sum(g.sum() for g in first), (x, source))
    assert [g.tolist() for g in second] == [[2.0, 1.0, 0.0], [2.0, 0.0, 1.0]]


def test_the_tangent_of_a_repeated_position_is_that_of_its_last_source() -> None:
    """As the value is, and as `index_put` and `index_copy` have it; PyTorch's agree, and so do central differences."""
    x, t = ad.tensor([5.0, 6.0, 7.0]), ad.tensor([1.0, 10.0, 100.0])
    places, zeros = ad.tensor([0, 1, 1]), ad.zeros(4)
    writes: list[Any] = [
        lambda s: zeros.scatter(0, places, s),
        lambda s: zeros.index_copy(0, places, s),
        lambda s: zeros.index_put((places,), s),
        lambda s: F.max_unpool1d(s[None, None], places[None, None], 2)[0, 0, :4],
    ]
    for write in writes:
        value, tangent = ad.func.jvp(write, (x,), (t,))
        assert (value.tolist(), tangent.tolist()) == ([5.0, 7.0, 0.0, 0.0], [1.0, 100.0, 0.0, 0.0])


@pytest.mark.parametrize("shape", [(4, 4), (5, 2), (7, 2), (2, 5), (3, 3, 3)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape: tuple[int, ...], wrap: bool) -> None:
    ours, theirs = (library.zeros(*shape).fill_diagonal_(5.0, wrap) for library in (ad, torch))
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("expression", [
    "x.scatter(0, j, y[:2])", "x.scatter(0, j, 1.0)", "x.scatter_reduce(0, i, y[:2], 'amax')",
    "x.scatter_reduce(0, i, y[:2], 'mean')", "x.index_add(0, rr, y)", "x.index_copy(0, r, y[:2])",
    "x.index_fill(0, r, 1.0)", "x.index_put((rr,), s)", "x.index_put((rr,), s, True)", "x.masked_scatter(k, y)",
    "x.take(r)", "x.put(r, v[:2])", "x.index_reduce(0, rr, y, 'prod')",
])  # fmt: skip
def test_names_of_nodes(expression: str) -> None:
    same_node(expression, **GIVEN)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("x.scatter(0, i + 5, y)", "is out of bounds for dimension 0 with size 3"),
        ("x.scatter(0, j, y.to(t.float32))", "scatter(): Expected self.dtype to be equal to src.dtype"),
        ("x.scatter(0, i, y, reduce='max')", "reduce argument must be either add or multiply."),
        ("x.index_add(0, i, y)", "Index"),
        ("x.index_add(0, r, y.to(t.float32)[:2])", "must have the same scalar type"),
        ("v.index_add(0, r - 3, v[:2])", "index"),
        ("x.index_copy(0, r - 3, y[:2])", "is out of bounds for dimension 0 with size 3"),
        ("x.scatter_add(0, j, y.to(t.float32))", "Expected self.dtype to be equal to src.dtype"),
        ("x.index_fill(0, r, v)", "index_fill_ only supports a 0-dimensional value tensor"),
        ("x.masked_scatter(k.long(), y)", "masked_scatter_ only supports boolean masks"),
        ("x.masked_scatter(k, v[:2])", "Number of elements of source < number of ones in mask"),
        ("x.take(t.tensor([12]))", "out of range: tried to access index 12"),
        ("x.put(r, v)", "Expected source and index to have the same number of elements"),
        ("v.clone().detach().fill_diagonal_(1)", "dimensions must larger than 1"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, **GIVEN)


@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_an_extreme_that_is_nan_gets_the_gradient_of_its_place(reduce: str, include_self: bool) -> None:
    x = ad.tensor([1.0, np.nan, 2.0], requires_grad=True)
    source = ad.tensor([5.0, np.nan], requires_grad=True)
    out: Any = x.scatter_reduce(0, ad.tensor([2, 2]), source, reduce, include_self=include_self)
    (out * ad.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 0.0]  # nothing is brought to the first two
    assert source.grad.tolist() == [0.0, 3.0]


def test_a_factor_for_integers_is_an_integer() -> None:
    x, i = ad.zeros(3, dtype=ad.int64), ad.tensor([0, 0])
    assert x.index_add(0, i, ad.tensor([1, 2]), alpha=2.0).tolist() == [6, 0, 0]
    with pytest.raises(RuntimeError, match=r"alpha must not be a floating point number, got 2\.5"):
        x.index_add(0, i, ad.tensor([1, 2]), alpha=2.5)
