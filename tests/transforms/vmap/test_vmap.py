"""`vmap`: dimensions, structures, writes in place, random numbers, Functions, levels around it, and what it refuses."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.support.checks import function, raises
from tests.support.threads import in_threads

import adjoint as ad
from adjoint import func
from adjoint.autograd import Function, grad
from adjoint.nn import functional as F

torch = pytest.importorskip("torch")
numbers = np.random.default_rng(0)
X, Y, ONE = numbers.random((4, 3)), numbers.random((3, 4)), numbers.random(3)
Pair = namedtuple("Pair", "a b")

DIMENSIONS: dict[str, Callable[..., Any]] = {
    "first": lambda L, V, x, y: V(lambda x: x * 2)(x),
    "last": lambda L, V, x, y: V(lambda y: y.sum(), in_dims=-1)(y),
    "two": lambda L, V, x, y: V(lambda x, y: x @ y, in_dims=(0, 1))(x, y),
    "one shared": lambda L, V, x, y: V(lambda x, y: x @ y, in_dims=(0, None))(x, y),
    "out last": lambda L, V, x, y: V(lambda x: x * 2, out_dims=-1)(x),
    "out one": lambda L, V, x, y: V(lambda x: x * y[:, :1], out_dims=1)(x),
    "out each": lambda L, V, x, y: V(lambda x: (x, x.sum()), out_dims=(1, 0))(x),
    "out none": lambda L, V, x, y: V(lambda x: (x, y, 3), out_dims=(0, None, None))(x),
    "out tuple of one": lambda L, V, x, y: V(lambda x: x, out_dims=(1,))(x),
    "shared result": lambda L, V, x, y: V(lambda x: y * 2)(x),
    "a tree": lambda L, V, x, y: V(lambda d: d["a"] * d["b"][0].sum(), in_dims=({"a": 0, "b": [None, None]},))(
        {"a": x, "b": [y, None]}
    ),
    "one for a tree": lambda L, V, x, y: V(lambda d, e: d["a"] * d["b"][0] + e, in_dims=(0, None))(
        {"a": x, "b": (x,)}, 3.0
    ),
    "a tree of results": lambda L, V, x, y: V(lambda x: {"a": x, "b": [x.sum()]}, out_dims={"a": 1, "b": [0]})(x),
    "a named tuple": lambda L, V, x, y: V(lambda p: Pair(p.b, p.a))(Pair(x, x + 1)),
    "keywords": lambda L, V, x, y: V(lambda x, k: x * k)(x, k=2),
    "nested": lambda L, V, x, y: V(V(lambda a, b: a * b, (None, 0)), (0, None))(x, y.T),
    "nested, crossed": lambda L, V, x, y: V(V(lambda a, b: a @ b, (0, None)), (None, 1), 1)(x, y),
    "in chunks": lambda L, V, x, y: V(lambda x: (x.sin(), x.sum()), chunk_size=3)(x),
    "in chunks, out last": lambda L, V, x, y: V(lambda x: (x.sin(), x.sum()), out_dims=(-1, 0), chunk_size=1)(x),
    "chunk too large": lambda L, V, x, y: V(lambda x: x.sin(), chunk_size=9)(x),
    "partial": lambda L, V, x, y: V(partial(lambda k, x: k * x, 3))(x),
    "0-d": lambda L, V, x, y: V(lambda s: s * y)(x[:, 0]),
    "0-d of a wider type": lambda L, V, x, y: V(lambda s: s * y.float())(x[:, 0]),
    "0-d integers": lambda L, V, x, y: V(lambda s: s * y.float() / s)(L.tensor([1, 2])),
    "a captured value is read": lambda L, V, x, y: V(lambda s: s * y[0, 0].item())(x),
    "branch on what is captured": lambda L, V, x, y: V(lambda s: s if y.sum() > 0 else -s)(x),
}


@pytest.mark.parametrize("name", DIMENSIONS)
def test_dimensions(name: str) -> None:
    ours = DIMENSIONS[name](ad, ad.vmap, ad.tensor(X), ad.tensor(Y))
    theirs = DIMENSIONS[name](torch, torch.func.vmap, torch.tensor(X), torch.tensor(Y))
    leaves, structure = ad.core.runtime.pytree.flatten(ours)
    expected, same = ad.core.runtime.pytree.flatten(theirs)
    assert structure == same
    for x, y in zip(leaves, expected, strict=True):
        if not isinstance(x, ad.Tensor):
            assert x == y
            continue
        assert str(x.dtype).replace("adjoint", "torch") == str(y.dtype)
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-6)


REFUSED: dict[str, Callable[..., Any]] = {
    "no inputs": lambda L, V, x, y: V(lambda: x)(),
    "in_dims a list": lambda L, V, x, y: V(lambda x: x, in_dims=[0])(x),
    "in_dims a float": lambda L, V, x, y: V(lambda x: x, in_dims=(0.0,))(x),
    "in_dims of another structure": lambda L, V, x, y: V(lambda x: x, in_dims=(0, 0))(x),
    "in_dims of a number": lambda L, V, x, y: V(lambda x, k: x, in_dims=(0, 0))(x, 3),
    "in_dims too large": lambda L, V, x, y: V(lambda x: x, in_dims=2)(x),
    "no tensor mapped": lambda L, V, x, y: V(lambda x: x, in_dims=(None,))(x),
    "sizes": lambda L, V, x, y: V(lambda x, y: x)(x, y),
    "out_dims a float": lambda L, V, x, y: V(lambda x: x, out_dims=0.5)(x),
    "out_dims of another structure": lambda L, V, x, y: V(lambda x: x, out_dims=(0, 0))(x),
    "out_dims too large": lambda L, V, x, y: V(lambda x: x, out_dims=2)(x),
    "out_dims none": lambda L, V, x, y: V(lambda x: x, out_dims=None)(x),
    "a number returned": lambda L, V, x, y: V(lambda x: 3.0)(x),
    "None returned": lambda L, V, x, y: V(lambda x: None)(x),
    "chunk_size": lambda L, V, x, y: V(lambda x: x, chunk_size=0)(x),
    "randomness": lambda L, V, x, y: V(lambda x: x, randomness="perhaps")(x),
    "item": lambda L, V, x, y: V(lambda x: x.sum().item())(x),
    "branch": lambda L, V, x, y: V(lambda x: x if x.sum() > 0 else -x)(x),
    "draw": lambda L, V, x, y: V(lambda x: x + L.rand(3))(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """With an error of PyTorch's class, in its words up to a point."""
    with pytest.raises((RuntimeError, ValueError, IndexError)) as theirs:
        REFUSED[name](torch, torch.func.vmap, torch.tensor(X), torch.tensor(Y))
    with pytest.raises(type(theirs.value)) as ours:
        REFUSED[name](ad, ad.vmap, ad.tensor(X), ad.tensor(Y))
    told, expected = (str(error.value).replace("torch.", "adjoint.") for error in (ours, theirs))
    assert told[:55] == expected[:55]


def test_a_tensor_that_outlives_its_level_says_so() -> None:
    kept: list[Any] = []
    ad.vmap(lambda x: kept.append(x) or x)(ad.tensor(X))
    assert repr(kept[0]) == "tensor(<f64[3], one of 4>)"
    raises(RuntimeError, "belongs to a vmap that has ended", lambda: kept[0] * 2)


def test_values_that_are_the_same_for_all_can_be_read() -> None:
    def f(x: Any) -> Any:
        made = ad.ones(2) * 3
        assert made.tolist() == [3, 3]
        assert made.sum().item() == float(made.sum()) == 6
        assert made[0] > 2
        assert repr(made) == "tensor(<f32[2], the same for all>)"
        return x * made[0].item()

    np.testing.assert_allclose(ad.vmap(f)(ad.tensor(X)).numpy(), X * 3)
    for read in (lambda x: x.tolist(), lambda x: float(x.sum()), lambda x: x.numpy()):
        raises(RuntimeError, "We don't support vmap over calling", ad.vmap(read), ad.tensor(X))


def loop(f: Callable[..., Any], x: Any) -> Any:
    return ad.stack([f(row.clone()) for row in x])


def set_parts(x: Any) -> Any:
    y = ad.zeros(3, dtype=ad.float64)
    y[1:] = x[:2]
    y[[0, 2]] *= x[1]
    y.add_(x)
    return y


def through_views(x: Any) -> Any:
    y = x.clone().reshape(3, 1)
    row = y[1]
    column = y.T
    row.mul_(3)
    column[0, 2] = x[0] + row[0]
    return y * column


def pieces(x: Any) -> Any:
    y = x * 2
    a, b = y.split([1, 2])
    c, *_ = y.unbind(0)
    return a * b * c


@pytest.mark.parametrize("f", [set_parts, through_views, pieces])
def test_writes_and_pieces(f: Callable[..., Any]) -> None:
    x = ad.tensor(X, requires_grad=True)
    out, expected = ad.vmap(f)(x), loop(f, x)
    np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy())
    weight = ad.tensor(numbers.random(tuple(out.shape)))
    (slope,), (looped,) = grad((out * weight).sum(), x), grad((expected * weight).sum(), x)
    np.testing.assert_allclose(slope.numpy(), looped.numpy())


def test_an_input_that_is_written_is_the_callers() -> None:
    y = ad.tensor(Y)
    before = y.clone()
    out = ad.vmap(lambda x: x.mul_(2), in_dims=1, out_dims=1)(y)
    np.testing.assert_allclose(y.numpy(), before.numpy() * 2)
    np.testing.assert_allclose(out.numpy(), y.numpy())


def test_what_was_made_outside_takes_no_batch() -> None:
    total, x = ad.zeros(3, dtype=ad.float64), ad.tensor(X)
    with pytest.raises(RuntimeError, match=r"vmap: inplace arithmetic\(self, \*extra_args\) is not possible because"):
        ad.vmap(lambda x: total.add_(x))(x)
    with pytest.raises(RuntimeError, match=r"that was made outside, and would have to hold 4 values"):
        ad.vmap(lambda x: total[1:].copy_(x[1:]))(x)
    assert total.tolist() == [0, 0, 0]
    assert not ad.vmap(lambda x: total + x)(x).requires_grad


def test_what_was_made_outside_takes_the_same_for_all() -> None:
    total = ad.zeros(3, dtype=ad.float64)
    part = total[1:]

    def f(x: Any) -> Any:
        total.add_(ad.ones(3, dtype=ad.float64))
        total[0] = 7.0
        return total * x

    out = ad.vmap(f)(ad.tensor(X))
    assert total.tolist() == [7, 1, 1]
    assert part.tolist() == [1, 1]
    assert total._version == 2
    np.testing.assert_allclose(out.numpy(), X * [7, 1, 1])


def test_a_detached_twin_of_what_is_written() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        twin = y.detach()
        y.add_(1)
        return twin

    raises(RuntimeError, "writes to memory that a detached tensor shares", lambda: ad.vmap(f)(ad.tensor(X)))


DRAWS: dict[str, Callable[[Any], Any]] = {
    "rand": lambda x: x * 0 + ad.rand(3),
    "randn": lambda x: x * 0 + ad.randn(3),
    "randint": lambda x: ad.randint(0, 1000, (3,)) + x * 0,
    "randperm": lambda x: ad.randperm(50) + x.sum() * 0,
    "bernoulli": lambda x: ad.bernoulli((x * 0 + 0.5).expand(40, 3)),
    "dropout": lambda x: F.dropout((x * 0 + 1).expand(40, 3), 0.5),
    "shared p": lambda x: ad.bernoulli(ad.full((60,), 0.5)) + x.sum() * 0,
}


@pytest.mark.parametrize("name", DRAWS)
def test_randomness(name: str) -> None:
    x = ad.tensor(X)
    ad.manual_seed(0)
    different = ad.vmap(DRAWS[name], randomness="different")(x).numpy()
    assert len({row.tobytes() for row in different}) == len(X)
    ad.manual_seed(0)
    alone = DRAWS[name](x[0]).numpy()
    after = ad.rand(1).item()
    ad.manual_seed(0)
    same = ad.vmap(DRAWS[name], randomness="same")(x).numpy()
    np.testing.assert_allclose(same, np.stack([alone] * len(X)))
    assert ad.rand(1).item() == after
    raises(RuntimeError, "vmap: called random operation while in randomness error mode", ad.vmap(DRAWS[name]), x)


def test_an_empty_batch() -> None:
    x = ad.zeros(0, 3)
    assert ad.vmap(lambda x: (x @ ad.ones(3, 2)).sin())(x).shape == (0, 2)
    assert ad.vmap(lambda x: F.conv1d(x[None], ad.ones(2, 1, 2)))(x).shape == (0, 2, 2)
    assert ad.vmap(func.grad(lambda x: x.sum()))(x).shape == (0, 3)


def test_compiled() -> None:
    w = ad.tensor(Y, requires_grad=True)

    def step(x: Any) -> Any:
        slopes = ad.vmap(func.grad(lambda x: (x @ w).tanh().sum()))(x)
        (out,) = grad((slopes * slopes).sum(), w)
        return slopes.detach(), out

    compiled = ad.compile(step)
    for factor in (1.0, 2.0):
        for ours, expected in zip(compiled(ad.tensor(X * factor)), step(ad.tensor(X * factor)), strict=True):
            np.testing.assert_allclose(ours.numpy(), expected.numpy(), rtol=1e-12)


def test_backward_inside() -> None:
    """A leaf made inside has a gradient for each example."""

    def f(x: Any) -> Any:
        leaf = ad.zeros(3, dtype=ad.float64).requires_grad_()
        ((leaf + x) * x).sum().backward()
        return leaf.grad

    np.testing.assert_allclose(ad.vmap(f)(ad.tensor(X)).numpy(), X)


def test_hooks_inside_and_outside() -> None:
    shapes: list[Any] = []
    x = ad.tensor(X, requires_grad=True)
    y = x * 1
    y.register_hook(lambda g: shapes.append(tuple(g.shape)))

    def f(x: Any) -> Any:
        z = x.clone().requires_grad_()
        z.register_hook(lambda g: g * 10)
        return func.grad(lambda z: (z * z).sum())(z) + grad((z * 2).sum(), z)[0]

    out = ad.vmap(f)(y)
    np.testing.assert_allclose(out.detach().numpy(), 2 * X + 20)
    out.sum().backward()
    assert shapes == [(4, 3)]
    np.testing.assert_allclose(x.grad.numpy(), np.full((4, 3), 2.0))


def test_saved_values_go_through_the_hooks_around() -> None:
    packed: list[Any] = []
    x = ad.tensor(X, requires_grad=True)
    with ad.autograd.graph.saved_tensors_hooks(lambda t: packed.append(tuple(t.shape)) or t, lambda t: t):
        out = ad.vmap(lambda x: x.exp())(x)
    out.sum().backward()
    assert packed == [(4, 3)]
    np.testing.assert_allclose(x.grad.numpy(), np.exp(X))


def test_threads() -> None:
    w = ad.tensor(Y, requires_grad=True)
    expected = ad.vmap(func.grad(lambda x: (x @ w).sin().sum()))(ad.tensor(X)).detach().numpy()
    found: list[Any] = []

    def work() -> None:
        slopes = ad.vmap(func.grad(lambda x: (x @ w).sin().sum()))
        found.extend(slopes(ad.tensor(X)).detach().numpy() for _ in range(20))

    in_threads(lambda _: work(), 4)
    assert len(found) == 80
    for slopes in found:
        np.testing.assert_array_equal(slopes, expected)


def make(own_rule: bool = False) -> type[Function]:
    """A Function whose backward is not its derivative, so that one sees which was taken."""

    class Odd(Function):
        generate_vmap_rule = not own_rule

        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y, x.sum()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)
            ctx.k = 3

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            x, y = ctx.saved_tensors
            return ctx.k * g * y + h * 2, g * x * 5

        @staticmethod
        def jvp(ctx: Any, s: Any, t: Any) -> Any:
            x, y = ctx.saved_tensors
            return 7 * s * y + x * t, s.sum()

    if own_rule:

        def rule(info: Any, in_dims: Any, x: Any, y: Any) -> Any:
            assert (info.batch_size, info.randomness, in_dims) == (4, "error", (0, None))
            return (x * y, x.sum(1)), (0, 0)

        Odd.vmap = staticmethod(rule)  # type: ignore[method-assign]
    return Odd


def losses(outputs: Any) -> Any:
    return sum((out * out).sum() for out in outputs)


@pytest.mark.parametrize("order", [1, 2])
def test_functions(order: int) -> None:
    """Whichever level differentiates, it goes through the user's backward."""
    function = make()
    x, y = ad.tensor(X), ad.tensor(ONE)

    def each(x: Any, y: Any) -> Any:
        return losses(function.apply(x, y))

    def mapped(x: Any, y: Any) -> Any:
        return losses(ad.vmap(function.apply, in_dims=(0, None))(x, y))

    def looped(x: Any, y: Any) -> Any:
        return sum(each(row, y) for row in x)

    transform = func.grad if order == 1 else lambda f, argnums: func.jacrev(func.grad(f), argnums=argnums)
    for ours, expected in zip(transform(mapped, (0, 1))(x, y), transform(looped, (0, 1))(x, y), strict=True):
        np.testing.assert_allclose(ours.numpy(), expected.numpy())
    inside = ad.vmap(transform(each, (0, 1)), in_dims=(0, None))(x, y)
    for i in range(len(X)):
        for ours, expected in zip(inside, transform(each, (0, 1))(x[i], y), strict=True):
            np.testing.assert_allclose(ours[i].numpy(), expected.numpy())


def test_functions_forward() -> None:
    function = make()
    x, y = ad.tensor(X), ad.tensor(ONE)
    directions = (x + 1, y * 2)
    out = func.jvp(ad.vmap(function.apply, in_dims=(0, None)), (x, y), directions)[1]
    inside = ad.vmap(lambda x, s: func.jvp(function.apply, (x, y), (s, y * 2))[1])(x, directions[0])
    for i in range(len(X)):
        alone = func.jvp(function.apply, (x[i], y), (directions[0][i], y * 2))[1]
        for k in range(2):
            np.testing.assert_allclose(out[k][i].numpy(), alone[k].numpy())
            np.testing.assert_allclose(inside[k][i].numpy(), alone[k].numpy())


def test_functions_in_a_batch_of_batches() -> None:
    function = make()
    x = ad.tensor(X)

    def pairs(x: Any) -> Any:
        return losses(ad.vmap(ad.vmap(function.apply, in_dims=(0, None)), in_dims=(None, 0))(x, x))

    looped = func.grad(lambda x: sum(losses(function.apply(a, b)) for a in x for b in x))(x)
    np.testing.assert_allclose(func.grad(pairs)(x).numpy(), looped.numpy())


def test_a_functions_own_rule() -> None:
    x, y = ad.tensor(X, requires_grad=True), ad.tensor(ONE)
    out, total = ad.vmap(make(own_rule=True).apply, in_dims=(0, None))(x, y)
    np.testing.assert_allclose(out.detach().numpy(), X * ONE)
    (slope,) = grad((out.sum() + total.sum()), x)  # of what the rule did
    np.testing.assert_allclose(slope.numpy(), np.broadcast_to(ONE, X.shape) + 1)
    both = make(own_rule=True)
    both.generate_vmap_rule = True
    with pytest.raises(RuntimeError, match="has both generate_vmap_rule=True and an overridden vmap staticmethod"):
        ad.vmap(both.apply, in_dims=(0, None))(x, y)


def test_a_function_whose_ctx_is_set_up_in_forward() -> None:
    Triple = function(lambda ctx, x: x * 3, lambda ctx, g: g * 30, "Triple")
    x = ad.tensor(X)
    np.testing.assert_allclose(ad.vmap(Triple.apply)(x).numpy(), 3 * X)
    inside = ad.vmap(func.grad(lambda x: Triple.apply(x).sum()))(x)
    np.testing.assert_allclose(inside.numpy(), np.full((4, 3), 30.0))
    with pytest.raises(RuntimeError, match="must override the setup_context staticmethod"):
        func.grad(lambda x: ad.vmap(Triple.apply)(x).sum())(x)


def test_batched_grad_outputs() -> None:
    x = ad.tensor(X, requires_grad=True)
    w = ad.tensor(ONE, requires_grad=True)
    out = (x * w).sin()
    rows = ad.tensor(numbers.random((6, 4, 3)))
    found = grad(out, (x, w), rows, is_grads_batched=True, create_graph=True)
    looped = [grad(out, (x, w), row, create_graph=True) for row in rows]
    for i, ours in enumerate(found):
        expected = ad.stack([each[i] for each in looped])
        np.testing.assert_allclose(ours.detach().numpy(), expected.detach().numpy())
        np.testing.assert_allclose(
            grad((ours * ours).sum(), w, retain_graph=True)[0].numpy(),
            grad((expected * expected).sum(), w, retain_graph=True)[0].numpy(),
        )


def test_batched_grad_outputs_that_are_refused_or_unused() -> None:
    x, unused = ad.tensor(X, requires_grad=True), ad.tensor(ONE, requires_grad=True)
    out = x * 2
    with pytest.raises(RuntimeError, match="If `is_grads_batched=True`, we interpret the first dimension of each"):
        grad(out, x, ad.ones(3, 3, dtype=ad.float64), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="at index 1 appears to not have been used"):
        grad(out, (x, unused), ad.ones(2, 4, 3, dtype=ad.float64), is_grads_batched=True, retain_graph=True)
    found = grad(out, (x, unused), ad.ones(2, 4, 3, dtype=ad.float64), is_grads_batched=True, allow_unused=True)
    assert found[0].shape == (2, 4, 3)
    assert found[1] is None
    y = x * 1
    y.register_hook(lambda g: g * ad.rand(4, 3))
    with pytest.raises(RuntimeError, match="We do not yet support calling random operations inside of vmap"):
        grad(y, x, ad.ones(2, 4, 3, dtype=ad.float64), is_grads_batched=True)


def test_a_function_of_examples_may_return_a_list_of_gradients() -> None:
    class Product(ad.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            x, y = ctx.saved_tensors
            return [gradients[0] * y, gradients[0] * x]

    x, y = ad.tensor([1.0, 2.0], requires_grad=True), ad.tensor([[3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    ad.vmap(Product.apply, in_dims=(None, 0))(x, y).sum().backward()
    assert x.grad.tolist() == [8.0, 10.0]
    assert y.grad.tolist() == [[1.0, 2.0], [1.0, 2.0]]


def test_what_does_not_differ_is_written_in_place() -> None:
    def scaled(g: Any) -> Any:
        c = ad.zeros(2)
        c += 3
        return g * c

    assert ad.equal(ad.func.vmap(scaled)(ad.ones(3, 2)), 3 * ad.ones(3, 2))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_chunks_draw_the_same_numbers(size: int) -> None:
    x = ad.zeros(5, 3)
    ad.manual_seed(3)
    whole = ad.func.vmap(lambda row: row + ad.rand(3), randomness="same")(x)
    ad.manual_seed(3)
    parts = ad.func.vmap(lambda row: row + ad.rand(3), randomness="same", chunk_size=size)(x)
    assert parts.tolist() == whole.tolist()
    assert parts[0].tolist() == parts[4].tolist()
