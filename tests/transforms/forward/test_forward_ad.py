"""Dual tensors: PyTorch's API, its errors, and what becomes of tangents in views, writes and backward passes."""

from __future__ import annotations

import gc
import pickle
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from adjoint.autograd.forward_ad import dual_level, make_dual, unpack_dual
from tests.support.checks import collector_off
from tests.support.threads import in_another_thread

import adjoint as ad
from adjoint.autograd import forward_ad, grad
from adjoint.autograd.engine.graph_task import nodes_leading_to
from adjoint.core.graph.node import Node
from adjoint.transforms.forward import dual_level as forward

X, T = [[0.5, -1.5], [2.0, 0.25]], [[1.0, -2.0], [0.5, 4.0]]


def dual(t: Any, x: Any = X, tangent: Any = T, **kind: Any) -> Any:
    return t.autograd.forward_ad.make_dual(t.tensor(x, **kind), t.tensor(tangent, **kind))


def parts(t: Any, *tensors: Any) -> list[Any]:
    """The values and tangents of tensors, as lists."""
    unpacked = [t.autograd.forward_ad.unpack_dual(x) for x in tensors]
    return [(p.tolist(), None if d is None else (str(d.dtype).rpartition(".")[2], d.tolist())) for p, d in unpacked]


def arithmetic(t: Any) -> Any:
    d = dual(t)
    return parts(t, d * d + 2, d / (d * d + 1), d.exp().sum(), -d, 3 - d, d**2, 2.0**d, d > 0, d.floor())


def reductions(t: Any) -> Any:
    d = dual(t)
    return parts(t, d.sum(0), d.mean(), d.prod(), d.max(), d.amin(1), d.cumsum(0), d.argmax(), t.softmax(d, 1))


def movements(t: Any) -> Any:
    d = dual(t)
    seen = d.t(), d.reshape(-1), d[0], d[:, 1:], d[:, None], d.expand(3, 2, 2), *d.split(1), *d.unbind(1)
    return parts(t, *seen, d.flip(0))


def joinings(t: Any) -> Any:
    d, plain = dual(t), t.ones(2, 2)
    return parts(t, t.cat([d, plain]), t.stack([plain, d], 1), t.where(plain > 0, d, plain), d[t.tensor([1, 1])])


def products(t: Any) -> Any:
    d, e, plain = dual(t), dual(t, T, X), t.ones(2, 2)
    return parts(t, d @ e, d @ plain, plain @ d, t.nn.functional.linear(plain, d), d.matmul(e).relu().sum())


def other_types(t: Any) -> Any:
    d = dual(t)
    wide = dual(t, dtype=t.float64)
    return parts(t, d.double(), d.long(), d.double().float(), d + wide, wide * 2, d * t.ones(2, 2, dtype=t.int64))


def cut_off(t: Any) -> Any:
    d = dual(t)
    cloned = d.clone()
    cloned.detach_()
    with t.no_grad():
        unrecorded = d * 2
    with t.inference_mode():
        inferred = d * 2
    return parts(t, d.detach(), d.data, cloned * 2, unrecorded, inferred, deepcopy(d))


def a_write_in_place(t: Any) -> Any:
    x, tangent = t.tensor(X), t.tensor(T)
    d = t.autograd.forward_ad.make_dual(x, tangent)
    d *= 2
    return [*parts(t, d, x), tangent.tolist()]


def writes_of_constants(t: Any) -> Any:
    d, e, f = dual(t), dual(t), dual(t)
    d.zero_()
    e.fill_(3)
    f[0] = 7
    f.add_(1)
    return parts(t, d, e, f)


def writes_into_what_had_none(t: Any) -> Any:
    d = dual(t)
    x, y, z, w = t.zeros(2, 2), t.zeros(2, 2), t.ones(2, 2), t.ones(2, 2)
    x.copy_(d)
    y += d
    z[1] = d[0]
    w[t.tensor([1, 0])] = d
    x.mul_(5)
    return parts(t, x, y, z, w, d)


def writes_through_views(t: Any) -> Any:
    d = dual(t)
    row = d[0]
    row *= 3
    d.t()[1].mul_(d[1].clone())
    before = d[:, 0]
    d.view(-1)[::2].add_(d[1].clone())
    return parts(t, d, row, before, d.t())


def views_of_what_becomes_dual(t: Any) -> Any:
    base = t.zeros(3, 2)
    row, column = base[1], base[:, 1]
    row.copy_(dual(t)[0])
    column.mul_(2)
    detached = t.zeros(2, 2)
    detached.detach().copy_(dual(t))
    return parts(t, base, row, column, base[2], detached)


def writes_with_history(t: Any) -> Any:
    x = t.tensor(X, requires_grad=True)
    v = t.tensor(T, requires_grad=True)
    d = t.autograd.forward_ad.make_dual(x * 1, v * 1)
    y = d.exp() + 1
    y.mul_(d).sin_()
    y[0].mul_(y[1].clone())
    slope = t.autograd.forward_ad.unpack_dual(y)[1]
    return [*parts(t, y), [g.tolist() for g in t.autograd.grad(slope.sum(), (x, v))]]


def level_numbers(t: Any) -> Any:
    d, f = dual(t), t.autograd.forward_ad
    return [f._current_level, f.unpack_dual(d, level=0)[1] is None, f.unpack_dual(d, level=-1)[0] is d]


def switched_off(t: Any) -> Any:
    d, f = dual(t), t.autograd.forward_ad
    with f._set_fwd_grad_enabled(False):
        off = [f._is_fwd_grad_enabled(), *parts(t, d * 2, d)]
        with f._set_fwd_grad_enabled(True):
            on = [f._is_fwd_grad_enabled(), *parts(t, d * 2)]
        off.append(f._is_fwd_grad_enabled())
    return [off, on, f._is_fwd_grad_enabled(), parts(t, d)]


def unpacked(t: Any) -> Any:
    x, tangent = t.tensor(X), t.tensor(T)
    d = t.autograd.forward_ad.make_dual(x, tangent)
    primal, held = t.autograd.forward_ad.unpack_dual(d)
    primal *= 2
    held *= 3
    x.add_(1)
    return [held is tangent, d._base is x, d._is_view(), primal is d, d._version, *parts(t, d, x, primal, held)]


def printed(t: Any) -> Any:
    x = t.tensor(X, requires_grad=True)
    d = t.autograd.forward_ad.make_dual(x, t.tensor(T))
    return [repr(dual(t, [1.0], [2.0])), repr(d), repr(dual(t) * 2), repr(d.detach())]


PROGRAMS: list[Callable[[Any], Any]] = [
    arithmetic, reductions, movements, joinings, products, other_types, cut_off, a_write_in_place, writes_of_constants,
    writes_into_what_had_none, writes_through_views, views_of_what_becomes_dual, writes_with_history, level_numbers,
    switched_off, unpacked, printed,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_torch(program: Callable[[Any], Any]) -> None:
    torch = pytest.importorskip("torch")
    found, expected = (_in_a_level(t, program) for t in (ad, torch))
    _same(found, expected)


def _in_a_level(t: Any, program: Callable[[Any], Any]) -> Any:
    with t.autograd.forward_ad.dual_level(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own
        return program(t)


def _same(found: Any, expected: Any) -> None:
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            _same(f, e)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)
    elif isinstance(expected, str):
        assert found.replace("adjoint", "torch") == expected.replace("adjoint", "torch")
    else:
        assert found == expected


def without_a_level(t: Any) -> Any:
    t.autograd.forward_ad.exit_dual_level()
    try:
        dual(t)
    finally:
        t.autograd.forward_ad.enter_dual_level()


def of_a_second_level(t: Any) -> Any:
    t.autograd.forward_ad.enter_dual_level()


def of_another_level_closed(t: Any) -> Any:
    t.autograd.forward_ad.exit_dual_level(level=3)


def of_an_unknown_level(t: Any) -> Any:
    t.autograd.forward_ad.make_dual(t.ones(2), t.ones(2), level=1)


def of_another_size(t: Any) -> Any:
    dual(t, [1.0, 2.0], [1.0])


def of_an_integer(t: Any) -> Any:
    t.autograd.forward_ad.make_dual(t.tensor([1]), t.tensor([1.0]))


def of_an_integer_tangent(t: Any) -> Any:
    t.autograd.forward_ad.make_dual(t.tensor([1.0]), t.tensor([1]))


def of_a_dual(t: Any) -> Any:
    t.autograd.forward_ad.make_dual(dual(t), t.tensor(T))


def of_a_tangent_that_is_dual(t: Any) -> Any:
    t.autograd.forward_ad.make_dual(t.tensor(X), dual(t))


ERRORS: list[Callable[[Any], Any]] = [
    without_a_level, of_a_second_level, of_another_level_closed, of_an_unknown_level, of_another_size, of_an_integer,
    of_an_integer_tangent, of_a_dual, of_a_tangent_that_is_dual,
]  # fmt: skip


@pytest.mark.parametrize("program", ERRORS, ids=lambda p: p.__name__)
def test_error_as_torch(program: Callable[[Any], Any]) -> None:
    torch = pytest.importorskip("torch")
    complaints = []
    for t in (ad, torch):
        with pytest.raises((RuntimeError, ValueError)) as info:
            _in_a_level(t, program)
        complaints.append((info.type, str(info.value)[:22]))
    assert complaints[0] == complaints[1]


def test_a_tangent_must_be_a_tensor() -> None:
    with dual_level(), pytest.raises(TypeError, match="Expected tangent to be a Tensor, but got: float"):
        make_dual(ad.ones(2), 1.0)  # type: ignore[arg-type]


def test_tangents_are_gone_with_their_level() -> None:
    x, t = ad.ones(2), ad.ones(2)
    with dual_level():
        d = make_dual(x, t)
    assert unpack_dual(d) == (d, None)
    held = weakref.ref(t)
    del t
    assert held() is None  # though d lives
    with dual_level():
        assert tangent_of(d * 2) is None
        assert tangent_of(make_dual(d, ad.zeros(2))) is not None


def test_a_tangent_dies_with_its_tensor() -> None:
    with dual_level():
        t = ad.ones(2)
        held = weakref.ref(t)
        d = make_dual(ad.ones(2), t)
        del t
        assert held() is not None
        del d
        assert held() is None


def test_dual_level_as_a_decorator() -> None:
    @dual_level()
    def slope(x: Any) -> Any:
        return tangent_of(make_dual(x, ad.ones(2)) ** 2)

    for _ in range(2):
        assert slope(ad.tensor([1.0, 3.0])).tolist() == [2.0, 6.0]
    assert forward_ad._current_level == -1


def test_a_level_closes_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), dual_level():
        raise ZeroDivisionError
    with dual_level():
        assert tangent_of(make_dual(ad.ones(1), ad.ones(1)) * 2) is not None


def test_switching_off_as_a_decorator_changes_nothing_outside() -> None:
    @forward_ad._set_fwd_grad_enabled(False)
    def plain(x: Any) -> Any:
        return x * 2

    with dual_level():
        d = make_dual(ad.ones(1), ad.ones(1))
        assert forward_ad._is_fwd_grad_enabled()
        assert tangent_of(plain(d)) is None
        assert tangent_of(d * 2) is not None


def test_levels_belong_to_their_thread() -> None:
    seen: list[Any] = []
    with dual_level():
        d = make_dual(ad.ones(2), ad.ones(2))

        def other() -> None:
            seen.append(tangent_of(d * 2))
            with dual_level():
                seen.append(tangent_of(make_dual(d, ad.zeros(2)) * 2))

        in_another_thread(other)
        assert tangent_of(d * 2) is not None
    assert seen[0] is None
    assert seen[1].tolist() == [0.0, 0.0]


def test_a_pickled_dual_is_plain() -> None:
    with dual_level():
        d = make_dual(ad.ones(2), ad.ones(2))
        assert tangent_of(pickle.loads(pickle.dumps(d))) is None


def test_a_tangent_lies_in_memory_as_its_tensor_does() -> None:
    x = ad.tensor(X).t()
    t = ad.tensor(T, requires_grad=True)
    with dual_level():
        d = make_dual(x, t)
        laid = tangent_of(d)
        assert laid.stride() == x.stride()
        assert laid.tolist() == T
        d.t().reshape(-1)[0].mul_(2)  # a view all the way, of the tangent too
        after = tangent_of(d)
        assert after[0, 0].item() == 2 * T[0][0]
    assert grad(laid.sum(), t)[0] is not None


def test_a_tangent_that_nobody_may_write_is_copied_for_all_views() -> None:
    t = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with dual_level():
        d = make_dual(ad.zeros(3), t)
        tail = d[1:]
        d.add_(1).mul_(4)
        assert t.tolist() == [1.0, 2.0, 3.0]
        assert tangent_of(tail).tolist() == [8.0, 12.0]
        tail.mul_(2)
        slope = tangent_of(d)
        assert slope.tolist() == [4.0, 16.0, 24.0]
    (g,) = grad(slope.sum(), t)
    assert g.tolist() == [4.0, 8.0, 8.0]


def test_the_primal_part_is_written_by_itself() -> None:
    with dual_level():
        d = make_dual(ad.ones(3), ad.ones(3)) * 1
        primal = unpack_dual(d).primal
        primal.mul_(make_dual(ad.ones(3), ad.ones(3)) * 2)
        assert d.tolist() == [2.0, 2.0, 2.0]
        assert tangent_of(d).tolist() == [1.0, 1.0, 1.0]
        assert tangent_of(primal).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.claim("2.9")
def test_no_graph_is_kept_where_nothing_requires_grad() -> None:
    with dual_level():
        d = make_dual(ad.ones(3), ad.ones(3))
        before = _living_nodes()
        y = ad.softmax(d.exp() * d, 0).max()
        tangent = tangent_of(y)
        assert _living_nodes() == before
        assert tangent.grad_fn is y.grad_fn is None


def test_what_is_older_than_all_that_is_wanted_is_not_searched() -> None:
    """A transposed rule asks for one gradient through a new node: that must not cost a search of the whole history."""

    class Old:
        sequence_nr = 1

        @property
        def parents(self) -> Any:
            raise AssertionError("searched")

    class New:
        def __init__(self, sequence_nr: int, *parents: Any) -> None:
            self.sequence_nr, self.parents = sequence_nr, parents

    wanted = New(2)
    between = New(3, Old(), wanted)
    last = New(4, between, Old())
    assert nodes_leading_to({wanted}, [last]) == {between, last}


def test_hessian_vector_product_by_forward_over_reverse() -> None:
    x, t = ad.tensor(X, dtype=ad.float64, requires_grad=True), ad.tensor(T, dtype=ad.float64)
    with dual_level():
        d = make_dual(x, t)
        (g,) = grad((d.sin() * d.exp()).sum(), x)
        found = tangent_of(g)
    values = np.array(X)
    np.testing.assert_allclose(found.array, 2 * np.cos(values) * np.exp(values) * np.array(T), rtol=1e-12)


def test_a_gradient_accumulates_with_its_tangent() -> None:
    x = ad.tensor([3.0], requires_grad=True)
    x.grad = ad.tensor([100.0])
    held = x.grad
    with dual_level():
        d = make_dual(x, ad.ones(1))
        for _ in range(2):
            (d**3).sum().backward()
        assert x.grad is held
        assert x.grad.tolist() == [154.0]
        assert tangent_of(x.grad).tolist() == [36.0]


def test_what_was_saved_is_pushed_forward_though_written_since() -> None:
    """The product keeps x; the write that follows must not reach what it kept, nor its tangent."""
    x = ad.tensor([3.0], requires_grad=True)
    with dual_level():
        y = make_dual(x, ad.ones(1)) * 1
        y *= y
        z = y.exp_()
        (g,) = grad(z.sum(), x)
        slope = tangent_of(g)
        assert slope.item() == pytest.approx((2 + 4 * 9) * np.exp(9), rel=1e-5)


def test_a_saved_tangent_that_was_written_is_refused() -> None:
    x = ad.tensor([3.0], requires_grad=True)
    with dual_level():
        tangent = ad.ones(1)
        d = make_dual(x, tangent)
        y = (d * d).sum()
        tangent.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_hooks_of_saved_tensors_see_duals() -> None:
    x = ad.tensor([3.0], requires_grad=True)
    packed: list[Any] = []

    def pack(t: Any) -> Any:
        packed.append(tangent_of(t))
        return t

    with dual_level():
        with ad.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = make_dual(x, ad.ones(1)) ** 3
        assert any(t is not None for t in packed)
        (g,) = grad(y, x)
        assert tangent_of(g).item() == 18.0


def test_nested_levels_keep_their_tangents_apart() -> None:
    """d/dx (x · d/dy (x y)) = 2 x, which a confusion of the two perturbations would miss."""
    with forward.new_level() as outer:
        x = forward.attach_tangent(ad.tensor(3.0), ad.tensor(1.0), outer)
        with forward.new_level() as inner:
            y = forward.attach_tangent(ad.tensor(5.0), ad.tensor(1.0), inner)
            slope: Any = forward.tangent_of(x * y, inner)
            assert forward.tangent_of(slope, inner) is None
        found: Any = forward.tangent_of(x * slope, outer)
    assert found.item() == 6.0


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_of_any_order(order: int) -> None:
    def derivative(n: int, x: Any) -> Any:
        if n == 0:
            return x.exp() * x
        with forward.new_level() as level:
            return forward.tangent_of(derivative(n - 1, forward.attach_tangent(x, ad.ones_like(x), level)), level)

    x = ad.tensor(0.3, dtype=ad.float64)
    assert derivative(order, x).item() == pytest.approx(np.exp(0.3) * (0.3 + order), rel=1e-12)


def test_forward_over_reverse_leaves_no_cycles() -> None:
    x = ad.tensor([0.5], dtype=ad.float64, requires_grad=True)

    def step() -> None:
        with dual_level():
            d = make_dual(x, ad.ones(1, dtype=ad.float64))
            y = d.exp().tanh() * 1
            y[0].mul_(d[0])
            (g,) = grad(y.sum(), x, create_graph=True)
            h = tangent_of(g)
            grad(h, x, create_graph=True)

    step()
    with _collector_off():
        before = _living_nodes()
        for _ in range(3):
            step()
        assert _living_nodes() == before


def test_a_long_chain_is_freed_without_recursion() -> None:
    x = ad.tensor([0.5], requires_grad=True)
    with dual_level():
        y = make_dual(x, ad.ones(1))
        for _ in range(5_000):
            y = y.exp() * 0.5
        before = weakref.ref(y)
        del y
    assert before() is None


def tangent_of(x: Any) -> Any:
    return unpack_dual(x).tangent


def _living_nodes() -> int:
    return sum(issubclass(type(o), Node) for o in gc.get_objects())


@contextmanager
def _collector_off() -> Iterator[None]:
    gc.collect()
    with collector_off():
        yield


def test_batched_tangents_lie_as_their_tensors() -> None:
    tangents = ad.arange(8.0).reshape(2, 2, 2)

    def unpacked(x: Any, t: Any) -> Any:
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(forward_ad.make_dual(x, t))[1]

    plain = ad.vmap(lambda t: unpacked(ad.zeros(2, 2), t))(tangents)
    turned = ad.vmap(lambda t: unpacked(ad.zeros(2, 2).t(), t))(tangents)
    assert plain is tangents
    assert turned is not tangents
    assert turned.tolist() == tangents.tolist()
    assert turned.stride() == (4, 1, 2)


def test_a_view_of_the_whole_shares_the_tangent_of_its_base() -> None:
    base, x = ad.zeros(2, 2), ad.ones(2, 2)
    whole, turned = base.view_as(base), base.t()
    with forward_ad.dual_level():
        whole.copy_(forward_ad.make_dual(x, ad.arange(4.0).reshape(2, 2)))
        of_base, of_whole, of_turned = (forward_ad.unpack_dual(t)[1] for t in (base, whole, turned))
        assert of_whole is of_base
        assert of_turned.tolist() == [[0.0, 2.0], [1.0, 3.0]]
        base.mul_(2)
        assert [t.tolist() for t in (of_whole, of_turned)] == [[[0.0, 2.0], [4.0, 6.0]], [[0.0, 4.0], [2.0, 6.0]]]


@pytest.mark.parametrize("part", ["real", "imag"])
@pytest.mark.parametrize("shape", [(1,), (40,), (7, 300)])
def test_the_tangent_of_a_part_of_complex_memory_has_room(part: str, shape: tuple[int, ...]) -> None:
    """The part counts its memory in elements of its own type, of which there are twice as many."""
    numbers = ad.arange(float(np.prod(shape)), dtype=ad.float64).reshape(shape)
    complex_numbers = ad.from_numpy(numbers.numpy() * (1 - 1j))  # whose memory is one of complex numbers
    x, t = getattr(complex_numbers, part), numbers + 1.0
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        tangent = forward_ad.unpack_dual(dual).tangent
        assert tangent is not None
        assert tangent.tolist() == t.tolist()
        assert tangent.stride() == x.stride()
        last = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
        assert tangent.untyped_storage().nbytes() >= tangent.element_size() * (last + 1)
        assert (dual * 2.0).sum().item() == 2.0 * x.sum().item()


def test_forward_mode_through_complex_factors_writes_only_its_own_memory() -> None:
    a = ad.complex(ad.randn(17, 2, dtype=ad.float64), ad.randn(17, 2, dtype=ad.float64))
    for _ in range(20):
        _, (_, tangent, _) = ad.func.jvp(lambda v: ad.linalg.svd(v.mH, full_matrices=False), (a,), (a,))
        np.testing.assert_allclose(tangent.numpy(), ad.linalg.svdvals(a).numpy(), rtol=1e-10)
