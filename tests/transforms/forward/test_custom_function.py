"""`jvp` of a Function: what it is given, what it must return, and how it nests."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import adjoint as ad
from adjoint.transforms.forward.dual_level import attach_tangent, new_level, tangent_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # PyTorch's own, on first use
BOTH = pytest.mark.parametrize("lib", [torch, ad], ids=["torch", "adjoint"])


def function(lib: Any, forward: Any, jvp: Any, **more: Any) -> Any:
    members = {"forward": staticmethod(forward), "jvp": staticmethod(jvp), **more}
    return type("Made", (lib.autograd.Function,), members)


def forward_ad(lib: Any) -> Any:
    return importlib.import_module(f"{lib.__name__}.autograd.forward_ad")


def twice(ctx: Any, x: Any, *rest: Any) -> Any:
    return x * 2


def in_place(ctx: Any, x: Any) -> Any:
    ctx.mark_dirty(x)
    return x.mul_(2)


def quiet(ctx: Any, x: Any) -> Any:
    out = x * 2
    ctx.mark_non_differentiable(out)
    return out


def written_and_copied(ctx: Any, t: Any) -> Any:
    return t.mul_(2).clone()


REFUSED = {
    "a number too many": (twice, lambda ctx, t: (t, t), "an invalid number of forward gradients .expected 1 but got 2"),
    "no tensor": (twice, lambda ctx, t: 3, r"expected Variable or None \(got int\) for grad output 0"),
    "another shape": (twice, lambda ctx, t: t.new_ones(5), "has a different size than that of the original Tensor"),
    "none to be had": (quiet, lambda ctx, t: t, "You should return None at that position instead"),
    "not written": (in_place, lambda ctx, t: t * 2, "is not modifying the forward mode gradients inplace"),
    "not the written": (in_place, written_and_copied, "forward mode gradients (inplace|as-is)"),
    "no view": (lambda ctx, x: x[:1], lambda ctx, t: t[:1].clone(), "but the jvp is not returning a view"),
    "the input": (lambda ctx, x: x, lambda ctx, t: t, "returning a view .or an input as-is. but the jvp is not"),
    "a view of another": (
        lambda ctx, x: x[:1],
        lambda ctx, t: t.clone()[:1],
        "the jvp is not returning a view of the given grad input",
    ),
}


@BOTH
@pytest.mark.parametrize(("forward", "jvp", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_jvp_must_return(lib: Any, forward: Any, jvp: Any, message: str) -> None:
    fw = forward_ad(lib)
    with fw.dual_level():
        x = fw.make_dual(lib.ones(3), lib.full((3,), 3.0))
        with pytest.raises(RuntimeError, match=message):
            function(lib, forward, jvp).apply(x)


@BOTH
def test_what_a_jvp_is_given(lib: Any) -> None:
    fw = forward_ad(lib)
    seen: list[Any] = []

    def forward(ctx: Any, x: Any, n: int, y: Any, k: Any, fill: bool) -> Any:
        ctx.set_materialize_grads(fill)
        ctx.save_for_backward(y)
        ctx.save_for_forward(x)
        assert fw.unpack_dual(x * 2).tangent is None
        return x * n

    def jvp(ctx: Any, x: Any, n: Any, y: Any, k: Any, fill: Any) -> Any:
        saved = ctx.saved_tensors
        seen.append([n, None if y is None else y.tolist(), k, len(saved), lib.is_grad_enabled()])
        return x * 2

    f = function(lib, forward, jvp)
    with fw.dual_level():
        x = fw.make_dual(lib.ones(1), lib.full((1,), 3.0))
        for fill in (True, False):
            out = f.apply(x, 2, lib.ones(1), lib.ones(1, dtype=lib.int64), fill)
            assert fw.unpack_dual(out).tangent.tolist() == [6.0]
    assert seen == [[None, [0.0], None, 1, True], [None, None, None, 1, True]]


@BOTH
def test_a_function_without_jvp(lib: Any) -> None:
    fw = forward_ad(lib)
    f = type("Plain", (lib.autograd.Function,), {"forward": staticmethod(twice)})
    assert f.apply(lib.ones(1)).tolist() == [2.0]  # type: ignore[attr-defined]
    with fw.dual_level(), pytest.raises(NotImplementedError, match="must implement the jvp function"):
        f.apply(fw.make_dual(lib.ones(1), lib.ones(1)))  # type: ignore[attr-defined]


@BOTH
def test_a_tangent_is_written_in_place_with_its_tensor(lib: Any) -> None:
    fw = forward_ad(lib)
    f = function(lib, in_place, lambda ctx, t: t.mul_(2))
    with fw.dual_level():
        tangent = lib.full((3,), 3.0)
        x = fw.make_dual(lib.ones(3), tangent)
        out = f.apply(x)
        assert out is x
        assert fw.unpack_dual(out).tangent is tangent
        assert tangent.tolist() == [6.0] * 3


def test_a_tangent_returned_as_it_was_given_is_not_shared() -> None:
    fw = forward_ad(ad)
    f = function(ad, lambda ctx, x: x.clone(), lambda ctx, t: t)
    with fw.dual_level():
        x = fw.make_dual(ad.ones(2), ad.full((2,), 3.0))
        out = f.apply(x)
        out.mul_(5)
        assert fw.unpack_dual(x).tangent.tolist() == [3.0, 3.0]
        assert fw.unpack_dual(out).tangent.tolist() == [15.0, 15.0]


def test_forward_mode_and_backward_through_one_function() -> None:
    class Cubed(ad.autograd.Function):
        """x³ and its derivatives, each written by hand."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 3 * ctx.saved_tensors[0] ** 2 * g

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return 3 * ctx.saved_tensors[0] ** 2 * t

    fw = forward_ad(ad)
    x = ad.tensor([2.0], dtype=ad.float64, requires_grad=True)
    with fw.dual_level():
        tangent = fw.unpack_dual(Cubed.apply(fw.make_dual(x, ad.ones(1, dtype=ad.float64)))).tangent
        (second,) = ad.autograd.grad(tangent, x)
    assert (tangent.item(), second.item()) == (12.0, 12.0)
    assert ad.autograd.gradcheck(Cubed.apply, x, check_forward_ad=True, check_batched_grad=True)


def test_levels_nest() -> None:
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * t

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_forward(x)
        return x**3

    f = function(ad, forward, jvp)
    one = ad.ones(1, dtype=ad.float64)
    with new_level() as outer, new_level() as inner:
        x = attach_tangent(attach_tangent(ad.tensor([2.0], dtype=ad.float64), one, outer), one, inner)
        out = f.apply(x)
        first = tangent_of(out, inner)
        assert first is not None
        second = tangent_of(first, outer)
    assert (first.item(), second.item()) == (12.0, 12.0)
