"""The transforms, alone and in one another, against `torch.func`: values, histories and errors."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises

import adjoint as ad
from adjoint import func
from adjoint.core.runtime.pytree import flatten

torch = pytest.importorskip("torch")
numbers = np.random.default_rng(0)
VECTOR, MATRIX, BATCH = numbers.random(3), numbers.random((3, 4)), numbers.random((5, 3))


def inputs(library: Any, tracked: str) -> dict[str, Any]:
    """x (3,), w (3, 4) and a batch of x; those named in `tracked` require grad."""
    given = {"x": VECTOR, "w": MATRIX, "b": BATCH}
    return {name: library.tensor(array, requires_grad=name in tracked) for name, array in given.items()}


def agree(ours: Any, theirs: Any, less: bool = False) -> None:
    """Same structure, shapes, values, and history or none; ours may be `less`."""
    leaves, expected = flatten(ours)[0], torch.utils._pytree.tree_leaves(theirs)
    assert len(leaves) == len(expected)
    for x, y in zip(leaves, expected, strict=True):
        assert tuple(x.shape) == tuple(y.shape)
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-10, atol=1e-12)
        assert x.requires_grad == y.requires_grad or (less and y.requires_grad)


def both(case: Callable[..., Any], tracked: str = "", less: bool = False) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own
        theirs = case(torch, torch.func, **inputs(torch, tracked))
    agree(case(ad, func, **inputs(ad, tracked)), theirs, less)


def f(x: Any, w: Any) -> Any:
    return (x @ w).sin()


def scalar(x: Any, w: Any) -> Any:
    return (f(x, w) ** 2).sum() + (x * x).prod()


def written(x: Any, w: Any) -> Any:
    """In place, and through views."""
    y = x.clone()
    y.mul_(2)
    y[1:].add_(x[0])
    z = y * 1
    z[0] = x[1]
    z[:2] *= 3
    first, *_ = z.unbind(0)
    return (z @ w).sum() * first


# Each takes a function of (x, w) that gives a vector or a number, and gives one of (x, w).
TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda F, g: F.grad(lambda x, w: g(x, w).sum()),
    "grad of w": lambda F, g: lambda x, w: F.grad(lambda w: g(x, w).sum())(w).sum(0)[:3] * x,
    "vjp": lambda F, g: lambda x, w: F.vjp(lambda x: g(x, w), x)[1](g(x, w) * 2)[0],
    "jvp": lambda F, g: lambda x, w: F.jvp(lambda x: g(x, w), (x,), (x * 3,))[1],
    "jacrev": lambda F, g: lambda x, w: F.jacrev(g)(x, w).sum(-1),
    "jacfwd": lambda F, g: lambda x, w: F.jacfwd(g)(x, w).sum(-1),
    "vmap": lambda F, g: lambda x, w: F.vmap(g, in_dims=(0, None))(x * w.T, w).sum(0),
}


def at_most_a_vector(g: Any) -> Any:
    def shorter(x: Any, w: Any) -> Any:
        y = g(x, w)
        return y if y.ndim < 2 else y.sum(0)

    return shorter


@pytest.mark.parametrize("tracked", ["", "xw"])
@pytest.mark.parametrize("outer", TRANSFORMS)
@pytest.mark.parametrize("inner", TRANSFORMS)
def test_two_deep(inner: str, outer: str, tracked: str) -> None:
    def case(library: Any, F: Any, x: Any, w: Any, b: Any) -> Any:
        return TRANSFORMS[outer](F, at_most_a_vector(TRANSFORMS[inner](F, f)))(x, w)

    both(case, tracked)


@pytest.mark.parametrize("outer", TRANSFORMS)
@pytest.mark.parametrize("middle", TRANSFORMS)
@pytest.mark.parametrize("inner", ["grad", "jvp", "vmap"])
def test_three_deep(inner: str, middle: str, outer: str) -> None:
    def case(library: Any, F: Any, x: Any, w: Any, b: Any) -> Any:
        g = at_most_a_vector(TRANSFORMS[inner](F, f))
        return TRANSFORMS[outer](F, at_most_a_vector(TRANSFORMS[middle](F, g)))(x, w)

    both(case, "w")


CASES: dict[str, Callable[..., Any]] = {
    "grad": lambda L, F, x, w, b: F.grad(scalar)(x, w),
    "grad by two": lambda L, F, x, w, b: F.grad(scalar, argnums=(0, 1))(x, w),
    "grad by the last": lambda L, F, x, w, b: F.grad(scalar, argnums=-1)(x, w),
    "grad and value": lambda L, F, x, w, b: F.grad_and_value(scalar)(x, w),
    "grad with aux": lambda L, F, x, w, b: F.grad(lambda x: (x.sum(), {"twice": x * 2}), has_aux=True)(x),
    "value with aux": lambda L, F, x, w, b: F.grad_and_value(lambda x: (x.sum(), [x * 2]), has_aux=True)(x),
    "grad of a tree": lambda L, F, x, w, b: F.grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": x, "b": [x * 2]}),
    "unused": lambda L, F, x, w, b: F.grad(lambda x, w: w.sum())(x, w),
    "keywords": lambda L, F, x, w, b: F.grad(lambda x, *, k: (x * k).sum())(x, k=w[:, 0]),
    "vjp": lambda L, F, x, w, b: [F.vjp(f, x, w)[0], F.vjp(f, x, w)[1](w[0] * 2)],
    "vjp with aux": lambda L, F, x, w, b: F.vjp(lambda x: (x * 2, x.sum()), x, has_aux=True)[2],
    "vjp of a tree": lambda L, F, x, w, b: F.vjp(lambda x: {"y": x * 2, "z": x.sin()}, x)[1]({"y": x, "z": x}),
    "vjp many times": lambda L, F, x, w, b: F.vmap(F.vjp(f, x, w)[1])(L.ones(2, 4, dtype=L.float64)),
    "jvp": lambda L, F, x, w, b: F.jvp(f, (x, w), (x * 2, w * 3)),
    "jvp with aux": lambda L, F, x, w, b: F.jvp(lambda x: (x * 2, x.sin()), (x,), (x,), has_aux=True),
    "jvp of what does not depend": lambda L, F, x, w, b: F.jvp(lambda x: w.sum(), (x,), (x,)),
    "linearize": lambda L, F, x, w, b: [F.linearize(f, x, w)[0], F.linearize(f, x, w)[1](x, w * 2)],
    "linearize many": lambda L, F, x, w, b: F.vmap(F.linearize(lambda x: f(x, w), x)[1])(b),
    "jacrev": lambda L, F, x, w, b: F.jacrev(f, argnums=(0, 1))(x, w),
    "jacrev in chunks": lambda L, F, x, w, b: F.jacrev(f, chunk_size=3)(x, w),
    "jacrev row by row": lambda L, F, x, w, b: F.jacrev(f, chunk_size=1)(x, w),
    "jacrev of a tree": lambda L, F, x, w, b: F.jacrev(lambda d: (d["a"] * 2, {"s": d["a"] @ w}))({"a": x}),
    "jacrev with aux": lambda L, F, x, w, b: F.jacrev(lambda x: (x.sin(), x.sum()), has_aux=True)(x),
    "jacfwd": lambda L, F, x, w, b: F.jacfwd(f, argnums=(1, 0))(x, w),
    "jacfwd of a tree": lambda L, F, x, w, b: F.jacfwd(lambda d: (d["a"] * 2, {"s": d["a"] @ w}))({"a": x}),
    "jacfwd with aux": lambda L, F, x, w, b: F.jacfwd(lambda x: (x.sin(), x.sum()), has_aux=True)(x),
    "hessian": lambda L, F, x, w, b: F.hessian(scalar)(x, w),
    "hessian by two": lambda L, F, x, w, b: F.hessian(scalar, argnums=(0, 1))(x, w),
    "per example": lambda L, F, x, w, b: F.vmap(F.grad(scalar, argnums=(0, 1)), in_dims=(0, None))(b, w),
    "per example hessian": lambda L, F, x, w, b: F.vmap(F.hessian(scalar), in_dims=(0, None))(b, w),
    "captured": lambda L, F, x, w, b: F.grad(lambda w: F.vmap(F.grad(lambda x: scalar(x, w)))(b).sum())(w),
    "detached": lambda L, F, x, w, b: F.grad(lambda b: F.vmap(lambda x: (x.detach() * x).sum())(b).sum())(b),
    "twice": lambda L, F, x, w, b: F.grad(F.grad(lambda x: x**3))(x[0]),
    "not confused": lambda L, F, x, w, b: F.grad(lambda x: F.grad(lambda y: (x * y * y).sum())(x).sum())(x),
    "not confused by jvp": lambda L, F, x, w, b: F.jvp(
        lambda x: F.jvp(lambda y: x * y * y, (x,), (x * 0 + 1,))[1], (x,), (x * 0 + 1,)
    ),
    "not confused by vmap": lambda L, F, x, w, b: F.vmap(lambda x: F.vmap(lambda y: x * y[0])(w))(x),
    "written": lambda L, F, x, w, b: F.grad(written)(x, w),
    "written, per example": lambda L, F, x, w, b: F.vmap(F.grad(written), in_dims=(0, None))(b, w),
    "written, batched first": lambda L, F, x, w, b: F.grad(lambda b: F.vmap(written, (0, None))(b, w).sum())(b),
    "written, forward": lambda L, F, x, w, b: F.jacfwd(written)(x, w),
    "written, twice": lambda L, F, x, w, b: F.vmap(F.hessian(written), in_dims=(0, None))(b, w),
}


@pytest.mark.parametrize("tracked", ["", "x", "w", "xwb"])
@pytest.mark.parametrize("name", CASES)
def test_case(name: str, tracked: str) -> None:
    if tracked and name.startswith("linearize"):
        pytest.skip("torch.func.linearize makes the primals constants")
    both(CASES[name], tracked, less=name == "jacfwd of a tree")  # torch keeps a history of ∂(2 x)/∂x = 2


def test_linearized_keeps_history() -> None:
    w = ad.tensor(MATRIX, requires_grad=True)
    runs = []

    def g(x: Any) -> Any:
        runs.append(1)
        return f(x, w)

    out, push = func.linearize(g, ad.tensor(VECTOR))
    slope = push(ad.tensor(BATCH[0]))
    again = push(ad.tensor(BATCH[1]))
    assert runs == [1]
    assert out.requires_grad
    expected = func.jvp(g, (ad.tensor(VECTOR),), (ad.tensor(BATCH[0]),))[1]
    agree(ad.autograd.grad(slope.sum(), w), torch.tensor(ad.autograd.grad(expected.sum(), w)[0].numpy()))
    assert not np.allclose(again.detach().numpy(), slope.detach().numpy())


@pytest.mark.parametrize("tracked", ["", "xw"])
def test_no_grad_outside(tracked: str) -> None:
    def case(library: Any, F: Any, x: Any, w: Any, b: Any) -> Any:
        with library.no_grad():
            return F.grad(scalar)(x, w), F.jacrev(f)(x, w), F.vmap(F.grad(scalar), in_dims=(0, None))(b, w)

    both(case, tracked)


def test_no_grad_inside() -> None:
    def case(library: Any, F: Any, x: Any, w: Any, b: Any) -> Any:
        def g(x: Any) -> Any:
            with library.no_grad():
                fixed = x * 2
            return (fixed * x).sum()

        def quiet(x: Any) -> Any:
            with library.no_grad():
                return F.grad(lambda x: scalar(x, w))(x)

        return F.vmap(F.grad(g))(b), F.grad(lambda b: F.vmap(lambda x: (quiet(x) * x).sum())(b).sum())(b)

    both(case, "w")


def test_a_result_that_leads_nowhere_has_no_history() -> None:
    x = ad.tensor(VECTOR)
    assert func.grad(lambda x: x.sin().sum())(x).grad_fn is None
    out, pull = func.vjp(lambda x: x.sin(), x)
    assert out.grad_fn is None
    assert pull(x)[0].grad_fn is None
    assert func.grad(lambda x: (x.sum(), x), has_aux=True)(x)[1].grad_fn is None


def test_leaves_of_the_user_inside_keep_their_history() -> None:
    own = ad.tensor(VECTOR, requires_grad=True)
    made: list[Any] = []

    def g(x: Any) -> Any:
        made.append(ad.tensor(VECTOR, requires_grad=True))
        return (x * own * made[0]).sum()

    slope = func.grad(g)(ad.tensor(VECTOR))
    slope.sum().backward()
    np.testing.assert_allclose(own.grad.numpy(), VECTOR)
    np.testing.assert_allclose(made[0].grad.numpy(), VECTOR)


ERRORS: dict[str, Callable[..., Any]] = {
    "grad of a vector": lambda L, F, x, w, b: F.grad(lambda x: x)(x),
    "grad of a number": lambda L, F, x, w, b: F.grad(lambda x: 3.0)(x),
    "grad, no aux": lambda L, F, x, w, b: F.grad(lambda x: x.sum(), has_aux=True)(x),
    "argnums": lambda L, F, x, w, b: F.grad(scalar, argnums=2)(x, w),
    "argnums twice": lambda L, F, x, w, b: F.grad(scalar, argnums=(0, 0))(x, w),
    "argnums empty": lambda L, F, x, w, b: F.grad(scalar, argnums=())(x, w),
    "argnums a float": lambda L, F, x, w, b: F.grad(scalar, argnums=0.0)(x, w),
    "grad by a number": lambda L, F, x, w, b: F.grad(lambda x: x)(2.0),
    "grad by integers": lambda L, F, x, w, b: F.grad(lambda x: x.sum())(x.long()),
    "vjp of nothing": lambda L, F, x, w, b: F.vjp(lambda x: (), x),
    "vjp of None": lambda L, F, x, w, b: F.vjp(lambda x: None, x),
    "vjp of a number": lambda L, F, x, w, b: F.vjp(lambda x: (x, 1.0), x),
    "vjp of integers": lambda L, F, x, w, b: F.vjp(lambda x: x.long(), x),
    "vjp, other structure": lambda L, F, x, w, b: F.vjp(lambda x: x, x)[1]((x, x)),
    "jvp, no tuple": lambda L, F, x, w, b: F.jvp(lambda x: x, x, x),
    "jvp, other structure": lambda L, F, x, w, b: F.jvp(lambda x: x, (x,), (x, x)),
    "jvp, other shape": lambda L, F, x, w, b: F.jvp(lambda x: x, (x,), (x[0],)),
    "jvp, strict": lambda L, F, x, w, b: F.jvp(lambda x: w, (x,), (x,), strict=True),
    "jvp of nothing": lambda L, F, x, w, b: F.jvp(lambda: x, (), ()),
    "jvp by numbers": lambda L, F, x, w, b: F.jvp(lambda x: x, (1.0,), (1.0,)),
    "jvp of a number": lambda L, F, x, w, b: F.jvp(lambda x: 1.0, (x,), (x,)),
    "jacrev, chunks": lambda L, F, x, w, b: F.jacrev(f, chunk_size=0)(x, w),
    "jacrev of a number": lambda L, F, x, w, b: F.jacrev(lambda x: 1.0)(x),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(name: str) -> None:
    """Of PyTorch's class, and in its words until it names itself or a structure."""
    with pytest.raises((RuntimeError, ValueError)) as theirs:
        ERRORS[name](torch, torch.func, **inputs(torch, ""))
    with pytest.raises(type(theirs.value)) as ours:
        ERRORS[name](ad, func, **inputs(ad, ""))
    told, expected = str(ours.value), str(theirs.value)
    shared = min(len(told), len(expected), 45)
    if name != "grad by integers":
        assert told[:shared].replace("adjoint", "torch") == expected[:shared]


def test_linearize_refuses_other_tangents() -> None:
    x = ad.tensor(VECTOR)
    _, push = func.linearize(lambda x: x.sin(), x)
    raises(RuntimeError, "to have the same argspec as the primals", push, x, x)
    raises(RuntimeError, r"tangent:0 with shape .* doesn't match the shape", push, x[:2])
    raises(RuntimeError, r"tangent:0 with dtype .* doesn't match the dtype", push, x.float())


def test_modes_are_put_back_after_an_error() -> None:
    def fails(x: Any) -> Any:
        raise ArithmeticError("stop")

    x = ad.tensor(BATCH)
    for transformed in (func.grad(fails), func.vmap(func.grad(fails)), func.jacfwd(fails), func.vmap(fails)):
        raises(ArithmeticError, None, transformed, x)
        assert (x * 2).sum().item() == pytest.approx(2 * BATCH.sum())
        assert ad.is_grad_enabled()


def test_nothing_is_left_for_the_garbage_collector() -> None:
    x, w = ad.tensor(BATCH), ad.tensor(MATRIX, requires_grad=True)
    steps = [
        lambda: func.vmap(func.grad(scalar), in_dims=(0, None))(x, w),
        lambda: func.vmap(func.grad(written), in_dims=(0, None))(x, w),
        lambda: func.hessian(scalar)(x[0], w),
        lambda: func.jacrev(f)(x[0], w),
        lambda: func.linearize(f, x[0], w)[1](x[1], w),
    ]
    for step in steps:
        step()
    while gc.collect():  # what one collection frees may have held more, of earlier tests
        pass
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for step in steps:
            step()
        gc.collect()
        assert [(type(left).__name__, repr(left)[:200]) for left in gc.garbage] == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


OF_OUTPUTS: dict[str, Callable[[Any, Any], Any]] = {  # their gradients are made of what they gave
    "pow": lambda t, x: (x**x).sum(),
    "std": lambda t, x: x.std(0).sum(),
    "mean": lambda t, x: (x.mean(0) ** 3).sum(),
    "layer_norm": lambda t, x: (t.nn.functional.layer_norm(x, (3,)) ** 3).sum(),
    "cross_entropy": lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 2, 1])),
    "inv": lambda t, x: (t.linalg.inv(x) ** 2).sum(),
    "solve": lambda t, x: (t.linalg.solve(x, x[0]) ** 2).sum(),
    "svdvals": lambda t, x: (t.linalg.svdvals(x) ** 2).sum(),
    "exp": lambda t, x: x.exp().tanh().sum(),
}


@pytest.mark.parametrize("name", OF_OUTPUTS)
def test_hessian_through_ops_that_keep_their_output(name: str) -> None:
    found = [t.func.hessian(lambda x, t=t: OF_OUTPUTS[name](t, x))(t.tensor(BATCH[:3] + 0.1)) for t in (ad, torch)]
    np.testing.assert_allclose(found[0].numpy(), found[1].numpy(), rtol=1e-6, atol=1e-9)


UNRECORDED: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, x: f.grad(lambda x: (x**3).sum())(x),
    "jvp": lambda f, x: f.jvp(lambda x: x**3, (x,), (x,)),
    "jvp of grad": lambda f, x: f.jvp(f.grad(lambda x: (x**3).sum()), (x,), (x,)),
    "jacrev": lambda f, x: f.jacrev(lambda x: x**3)(x),
    "jacfwd": lambda f, x: f.jacfwd(lambda x: x**3)(x),
    "jacfwd of jacfwd": lambda f, x: f.jacfwd(f.jacfwd(lambda x: x**3))(x),
    "hessian": lambda f, x: f.hessian(lambda x: (x**3).sum())(x),
    "vmap of grad": lambda f, x: f.vmap(f.grad(lambda x: x**3))(x),
    "jvp of vjp": lambda f, x: f.jvp(lambda x: f.vjp(lambda y: y**3, x)[1](x), (x,), (x,)),
}


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
@pytest.mark.parametrize("name", UNRECORDED)
def test_where_nothing_is_recorded_derivatives_are_the_same(name: str, mode: str) -> None:
    x = ad.tensor(VECTOR)
    expected = flatten(UNRECORDED[name](func, x))[0]
    with getattr(ad, mode)():
        inside = ad.tensor(VECTOR)
        results = [flatten(UNRECORDED[name](func, given))[0] for given in (x, inside)]
    for found in results:
        for ours, same in zip(found, expected, strict=True):
            assert ad.equal(ours, same)
            assert not ours.requires_grad


def test_tensors_of_inference_mode_are_constants() -> None:
    with ad.inference_mode():
        weights = ad.tensor(VECTOR)
        inside = func.grad(lambda x: (x * weights * x).sum())(ad.ones(3))
    outside = func.grad(lambda x: (x * weights * x).sum())(ad.ones(3))
    assert np.array_equal(inside.numpy(), 2 * VECTOR.astype(np.float32))
    assert ad.equal(inside, outside)
    assert not inside.is_inference()


def test_by_no_element_and_of_none() -> None:
    nothing = ad.zeros(0)
    assert func.jacfwd(ad.exp)(nothing).shape == func.jacrev(ad.exp)(nothing).shape == (0, 0)
    assert func.jacfwd(lambda x: x[:0])(ad.ones(3)).shape == (0, 3)
    assert func.hessian(lambda x: x.exp().sum())(nothing).shape == (0, 0)


def test_a_pullback_from_outside_is_differentiated_by_its_cotangent() -> None:
    results = []
    for library in (torch, ad):
        func = library.func
        x, y = library.tensor(0.3), library.tensor(0.7)
        pull = func.vjp(library.sin, x)[1]
        slope = func.grad(lambda v, pull=pull: pull(v)[0])(y)
        again = func.vjp(func.grad(lambda x, cos=library.cos: -cos(x)), x)[1]
        second = func.grad(lambda v, again=again: again(v)[0])(y)
        whole = func.jacrev(lambda v, pull=pull: pull(v)[0] * v)(y)
        assert not any(t.requires_grad for t in (slope, second, whole))
        results.append([t.item() for t in (slope, second, whole)])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)


@pytest.mark.parametrize("primal_at", [0, 1, 2])
@pytest.mark.parametrize("tangent_at", [0, 1, 2])
def test_tangents_of_views_follow_writes_wherever_the_examples_lie(primal_at: int, tangent_at: int) -> None:
    """Between the elements of one example lie those of others, in the tangent others than in the primal."""

    def written(x: Any, y: Any) -> Any:
        view = x[0, ::2]
        x.copy_(y)
        return x, view

    x, dx, y, dy = (ad.rand(3, 2, 6) for _ in range(4))
    at = (primal_at, tangent_at, 0, 0)
    given = [t.movedim(0, d).contiguous() for t, d in zip((x, dx, y, dy.clone()), at, strict=True)]
    out, tangents = func.vmap(lambda x, dx, y, dy: func.jvp(written, (x, y), (dx, dy)), in_dims=at)(*given)
    for found, expected in ((out, y), (tangents, dy)):
        assert ad.equal(found[0], expected)
        assert ad.equal(found[1], expected[:, 0, ::2])


@pytest.mark.parametrize("chunk_size", [None, 1, 2])
def test_jacrev_of_no_elements(chunk_size: int | None) -> None:
    x = ad.ones(2)
    assert ad.func.jacrev(lambda x: x[:0] * 2, chunk_size=chunk_size)(x).shape == (0, 2)
