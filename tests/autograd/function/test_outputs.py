"""Functions that write their inputs in place, or return inputs and views: as PyTorch has it."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.checks import collector_off, function, raises

import adjoint as ad
from adjoint.autograd import grad, gradcheck, gradgradcheck

torch = pytest.importorskip("torch")
BOTH = pytest.mark.parametrize("lib", [torch, ad], ids=["torch", "adjoint"])


def ones(lib: Any, n: int = 3, requires_grad: bool = True) -> Any:
    """A tensor that is no leaf where it requires grad."""
    return lib.ones(n, dtype=lib.float64, requires_grad=requires_grad) * 1


def tripled(ctx: Any, x: Any, *rest: Any) -> Any:
    x.mul_(3)
    ctx.mark_dirty(x)
    return x


def dirty_and_another(ctx: Any, x: Any) -> Any:
    return tripled(ctx, x), x * 2


def dirty_not_returned(ctx: Any, x: Any) -> Any:
    ctx.mark_dirty(x)
    return x * 2


def dirty_intermediate_view(ctx: Any, x: Any) -> Any:
    made = (x * 2)[:1]
    ctx.mark_dirty(made)
    return made


REFUSED: dict[str, tuple[Any, Callable[[Any], Any], str]] = {
    "a leaf": (
        tripled,
        lambda lib: lib.ones(2, requires_grad=True),
        "a leaf Variable that requires grad has been used in an in-place operation",
    ),
    "a view of a leaf": (
        tripled,
        lambda lib: lib.ones(2, requires_grad=True)[:1],
        "a view of a leaf Variable that requires grad is being used in an in-place operation",
    ),
    "one of many": (
        tripled,
        lambda lib: ones(lib).unbind()[0],
        "is a view and is being modified inplace. This view is the output of a function that returns multiple views",
    ),
    "a view and another": (
        dirty_and_another,
        lambda lib: ones(lib)[:1],
        "your Function modifies inplace an input that is a view of another Tensor",
    ),
    "not returned": (dirty_not_returned, ones, "Some elements marked as dirty during the forward method were not"),
    "a view of an intermediate": (dirty_intermediate_view, ones, "received a tensor that was not an input"),
}


@BOTH
@pytest.mark.parametrize(("forward", "argument", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_dirty_tensors_that_are_refused(lib: Any, forward: Any, argument: Any, message: str) -> None:
    raises(RuntimeError, message, function(forward, lib=lib).apply, argument(lib))


@BOTH
def test_a_dirty_intermediate_is_warned_of(lib: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        made = x * 2
        ctx.mark_dirty(made)
        return made

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = function(forward, lib=lib).apply(ones(lib))
    assert y.grad_fn.name() == "MadeBackward"
    if lib is ad:  # PyTorch warns once in a process
        assert "received a tensor that was not an input" in str(caught[0].message)
        assert caught[0].filename == __file__


@BOTH
def test_a_dirty_input_takes_part_and_counts_a_write(lib: Any) -> None:
    f = function(tripled, lambda ctx, g, *_: (g * 3, None), lib=lib)
    plain, wanted = ones(lib, requires_grad=False), ones(lib)
    y = f.apply(plain, wanted)
    assert y is plain
    assert (plain.requires_grad, plain.grad_fn.name(), plain._version) == (True, "MadeBackward", 2)
    alone = ones(lib, requires_grad=False)
    assert function(tripled, lib=lib).apply(alone) is alone
    assert (alone.requires_grad, alone._version) == (False, 2)


@BOTH
def test_a_dirty_view_rebases_its_base(lib: Any) -> None:
    x = lib.tensor([1.0, 2.0, 3.0], dtype=lib.float64, requires_grad=True)
    base = x * 1
    other, window = base[1:], base[:2]
    y = function(tripled, lambda ctx, g: g * 3, lib=lib).apply(window)
    assert y is window
    assert y._base is base
    assert (type(base.grad_fn).__name__, base._version) == ("CopySlices", 2)
    (g,) = lib.autograd.grad((base * base).sum() + other.sum() + (y * 10).sum(), x)
    assert g.tolist() == [48.0, 69.0, 7.0]


def test_dirty_views_are_differentiated_to_any_order() -> None:
    class Mul(ad.autograd.Function):
        """x·y, in the memory of x; y is a constant."""

        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(y)
            ctx.mark_dirty(x)
            return x.mul_(y)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0], None

    def program(root: Any) -> Any:
        x = root * root
        Mul.apply(x[1:], ad.tensor([2.0, 5.0], dtype=ad.float64))
        Mul.apply(x[:2], ad.tensor([3.0, 7.0], dtype=ad.float64))
        return x * x

    root = ad.tensor([0.3, 0.7, 1.1], dtype=ad.float64, requires_grad=True)
    assert gradcheck(program, root)
    assert gradgradcheck(program, root)


def test_a_dirty_tensor_and_all_its_views_follow() -> None:
    x = ad.ones(3, dtype=ad.float64, requires_grad=True)
    base = x * 1
    window = base[:1]
    y, z = function(lambda ctx, t: (tripled(ctx, t), t * 5), lambda ctx, g, h: g * 3 + h * 15).apply(base)
    assert y is base
    (g,) = grad((window * 2).sum() + z.sum(), x)
    np.testing.assert_array_equal(g.numpy(), [21.0, 15.0, 15.0])


def as_it_is(ctx: Any, x: Any) -> Any:
    return x


def a_view(ctx: Any, x: Any) -> Any:
    return x[:2]


def of_a_temporary(ctx: Any, x: Any) -> Any:
    return (x * 2)[:2]


def two_views(ctx: Any, x: Any) -> Any:
    return x[:1], x[1:]


def as_it_is_and_quiet(ctx: Any, x: Any) -> Any:
    ctx.mark_non_differentiable(x)
    return x


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("forward", [as_it_is, a_view, of_a_temporary, two_views, as_it_is_and_quiet])
def test_views_as_in_torch(forward: Any, wanted: bool, recording: bool) -> None:
    def outcome(lib: Any) -> tuple[Any, ...]:
        x = ones(lib, requires_grad=wanted)
        with lib.set_grad_enabled(recording):
            out = function(forward, lib=lib).apply(x)
        out = out[0] if isinstance(out, tuple) else out
        facts = (out is x, out._base is x, out._is_view(), type(out.grad_fn).__name__, out._version)
        try:
            out.add_(lib.ones(1, dtype=lib.float64, requires_grad=True))
        except RuntimeError as error:
            said = str(error)
            kinds = ("custom Function", "in no_grad mode", "multiple views")
            return *facts, next(kind for kind in kinds[::-1] if kind in said)
        return *facts, "written"

    expected, found = outcome(torch), outcome(ad)
    if expected[-1] == "in no_grad mode" and recording:
        expected = (*expected[:-1], "custom Function")  # PyTorch names both, and no no_grad is to be seen there
    assert found == expected


def test_a_pure_view_is_written_like_any_other() -> None:
    def pure(ctx: Any, x: Any) -> Any:
        ctx._is_pure_view = True
        return x[:2]

    for lib in (torch, ad):
        x = ones(lib)
        y = function(pure, lib=lib).apply(x)
        y.add_(1)
        assert type(x.grad_fn).__name__ == "CopySlices"
        with pytest.raises(RuntimeError, match="Pure view custom Function can only have one input Tensor"):
            function(lambda ctx, x, y: pure(ctx, x), lib=lib).apply(x, x)


@BOTH
def test_returned_twice(lib: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        out = x * 2
        return out, out, x, x

    a, b, c, d = function(forward, lambda ctx, *gs: sum(gs), lib=lib).apply(ones(lib))
    assert a is b
    assert c is not d
    assert (a.output_nr, c.output_nr, d.output_nr) == (1, 2, 3)


@BOTH
def test_an_input_returned_as_it_is_and_saved_after_forward(lib: Any) -> None:
    members = {
        "forward": staticmethod(lambda x: x),
        "setup_context": staticmethod(lambda ctx, inputs, output: ctx.save_for_backward(output)),
        "backward": staticmethod(lambda ctx, g: g),
    }
    with pytest.raises(RuntimeError, match="An input that has been returned as-is as output is being saved"):
        type("Saves", (lib.autograd.Function,), members).apply(ones(lib))  # type: ignore[attr-defined]


@BOTH
def test_under_no_grad_a_dirty_leaf_stays_what_it_is(lib: Any) -> None:
    x = lib.ones(2, dtype=lib.float64, requires_grad=True)
    with lib.no_grad():
        y = function(tripled, lib=lib).apply(x)
    assert y is not x
    assert (x.is_leaf, x.requires_grad, x.tolist(), x._version) == (True, True, [3.0, 3.0], 2)
    assert not y.requires_grad


class Everything(ad.autograd.Function):
    """Writes in place, returns its input, a view and a value, and keeps all of them in every way."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        out = x * y
        ctx.save_for_backward(x, y, out, out[:1])
        ctx.x, ctx.out = x, out
        return x, y, y[:1], out

    @staticmethod
    def backward(ctx: Any, gx: Any, gy: Any, gv: Any, g: Any) -> Any:
        x, y, *_ = ctx.saved_tensors
        assert ctx.x.requires_grad
        return (gx + g * y) * 2, gy + g * x


class KeepsItsView(ad.autograd.Function):
    """Saves the view that it writes: its base leads to the node that keeps it."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def test_nothing_is_left_without_the_collector() -> None:
    leaf = ad.ones(3, dtype=ad.float64, requires_grad=True)
    window = function(tripled, lambda ctx, g: g * 3)

    def step(used: bool) -> None:
        x, y = leaf * 1, leaf * 2
        window.apply(y[1:])
        KeepsItsView.apply((leaf * 3)[1:])
        a, b, c, d = Everything.apply(x, y)
        loss = (a + b + d).sum() + c.sum()
        if used:
            loss.backward(create_graph=True)
        leaf.grad = None

    gc.collect()
    with collector_off():
        for _ in range(20):
            step(True)
        objects = len(gc.get_objects())
        for i in range(200):
            step(i % 2 == 0)
        assert len(gc.get_objects()) - objects < 50


def test_a_view_that_a_function_made_is_not_used_after_its_base_was_written() -> None:
    Tripling = function(lambda ctx, x: x.view(-1), lambda ctx, g: 3 * g, "Tripling")
    x = ad.ones(2, requires_grad=True)
    base = x * 2
    seen = Tripling.apply(base)
    base.add_(1.0)
    raises(RuntimeError, "inside a custom Function and its base", seen.sum().backward)
