"""`gradcheck` looks at forward mode, and at batches of gradients and tangents, as PyTorch's does."""

from typing import Any

import pytest
from tests.support.derivatives import (
    Build,
    assert_as_torch,
    function,
    leaf,
    of_a_scalar,
    of_an_unused_input,
    power,
    right,
    that_writes_in_place,
    with_a_constant_output,
    with_inputs_of_all_kinds,
)

import adjoint as ad
from adjoint.autograd import GradcheckError, gradcheck, gradgradcheck


@pytest.mark.parametrize("build", [right, of_a_scalar, of_an_unused_input])
def test_batched_gradients(build: Build) -> None:
    func, inputs = build(ad)
    assert gradcheck(func, inputs, check_batched_grad=True)
    assert gradgradcheck(func, inputs, check_batched_grad=True)


def leaves_its_batch(t: Any) -> Any:
    return function(t, lambda ctx, x: x.clone(), lambda ctx, g: t.tensor(g.numpy())), leaf(t, 1.0)


def test_a_backward_that_vmap_cannot_take_is_refused_as_in_torch() -> None:
    message = r"While computing batched gradients, got: (?s:.*)check_batched_grad=False"
    for t in (ad, pytest.importorskip("torch")):
        with pytest.raises(RuntimeError, match=message):
            t.autograd.gradcheck(*leaves_its_batch(t), check_batched_grad=True)


def test_a_batch_that_differs_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from adjoint.testing.gradcheck import grad_properties

    real = grad_properties.grad

    def doubled(*args: Any, is_grads_batched: bool = False, **options: Any) -> Any:
        if not is_grads_batched:
            return real(*args, **options)
        return tuple(ad.ones((2, 1), dtype=ad.float64) for _ in args[1])

    monkeypatch.setattr(grad_properties, "grad", doubled)
    with pytest.raises(GradcheckError, match=r"(?s)For output 0 and input 0:\n\n.*batched gradient.*Got:.*Expected:"):
        gradcheck(lambda x: x * 2, leaf(ad, 1.0), check_batched_grad=True)


def forward_pair(t: Any, factor: float) -> Any:
    made = function(
        t,
        lambda x, y: (x * y, y * 2),
        lambda ctx, g, h: (g * ctx.y, g * ctx.x + 2 * h),
        setup_context=lambda ctx, inputs, output: ctx.__dict__.update(x=inputs[0], y=inputs[1]),
        jvp=lambda ctx, dx, dy: (dx * ctx.y + ctx.x * dy * factor, dy * 2),
    )
    return made, (leaf(t, 1.0, 2.0), leaf(t, 3.0, 4.0))


@pytest.mark.parametrize("fast_mode", [False, True], ids=["slow", "fast"])
@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_forward_mode_is_checked_as_in_torch(factor: float, fast_mode: bool) -> None:
    options = {"check_forward_ad": True, "fast_mode": fast_mode}
    found = assert_as_torch("gradcheck", lambda t: forward_pair(t, factor), **options)
    found_alone = assert_as_torch("gradcheck", lambda t: forward_pair(t, factor), check_backward_ad=False, **options)
    mismatch = ("GradcheckError", "Jacobian computed with forward mode mismatch for output 0 ")
    assert found == found_alone == (True if factor == 1.0 else mismatch)


@pytest.mark.parametrize("fast_mode", [False, True], ids=["slow", "fast"])
@pytest.mark.parametrize("build", [right, with_inputs_of_all_kinds, of_a_scalar, that_writes_in_place, power])
def test_ops_in_forward_mode_pass_as_in_torch(build: Build, fast_mode: bool) -> None:
    assert assert_as_torch("gradcheck", build, check_forward_ad=True, fast_mode=fast_mode) is True
    assert assert_as_torch("gradgradcheck", build, check_fwd_over_rev=True, fast_mode=fast_mode) is True


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({"check_undefined_grad": False}, 2),
        ({"check_undefined_grad": True}, 6),
        ({"check_undefined_grad": True, "check_batched_forward_grad": True}, 12),
    ],
)
def test_the_jvp_is_called_as_often_as_in_torch(options: dict[str, Any], calls: int) -> None:
    for t in (ad, pytest.importorskip("torch")):
        count: list[int] = []
        made = function(
            t, lambda ctx, x, y: (x.clone(), y.clone()), lambda ctx, g, h: (g, h),
            jvp=lambda ctx, dx, dy, c=count: c.append(0) or (dx, dy),
        )  # fmt: skip
        assert t.autograd.gradcheck(
            made, (leaf(t, 1.0), leaf(t, 2.0)), check_forward_ad=True, check_backward_ad=False, **options
        )
        assert len(count) == calls


def test_duals_do_not_require_grad() -> None:
    from adjoint.autograd import forward_ad

    def func(x: Any, y: Any) -> Any:
        if forward_ad.unpack_dual(x).tangent is not None:
            seen.append((x.requires_grad, y.requires_grad))
        return x * y

    seen: list[tuple[bool, bool]] = []
    assert gradcheck(func, (leaf(ad, 1.0), leaf(ad, 2.0)), check_forward_ad=True)
    assert set(seen) == {(False, False)}


def test_a_jvp_to_which_no_tangent_is_not_zero_is_refused() -> None:
    from adjoint.autograd import forward_ad

    def func(x: Any, y: Any) -> Any:
        with_tangent = forward_ad.unpack_dual(y).tangent is not None
        return x * 1 if with_tangent or x.requires_grad else x * 2

    with pytest.raises(GradcheckError, match="Mismatch in tangent values for output with index: 0 when input"):
        gradcheck(func, (leaf(ad, 1.0), leaf(ad, 2.0)), check_forward_ad=True, check_backward_ad=False)


@pytest.mark.parametrize("build", [right, of_a_scalar, with_inputs_of_all_kinds, with_a_constant_output])
def test_batched_tangents(build: Build) -> None:
    func, inputs = build(ad)
    assert gradcheck(func, inputs, check_forward_ad=True, check_batched_forward_grad=True)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_random_numbers_are_drawn_as_in_torch(dtype: str) -> None:
    """After checks that draw, a program's own draws are those that it gets from PyTorch."""
    torch = pytest.importorskip("torch")
    assert draws_between_checks(ad, dtype) == draws_between_checks(torch, dtype)


def draws_between_checks(t: Any, dtype: str) -> list[float]:
    """What a program draws after each of several checks of a function with two outputs."""

    def both(x: Any) -> Any:
        return x * x, x.sum()

    t.manual_seed(3)
    x = t.randn(3, 2, dtype=getattr(t, dtype), requires_grad=True)
    settings: list[tuple[Any, dict[str, bool]]] = [
        (t.autograd.gradcheck, {}),
        (t.autograd.gradcheck, {"check_batched_grad": True}),
        (t.autograd.gradcheck, {"check_forward_ad": True, "check_batched_forward_grad": True}),
        (t.autograd.gradgradcheck, {}),
        (t.autograd.gradgradcheck, {"gen_non_contig_grad_outputs": True}),
        (t.autograd.gradgradcheck, {"fast_mode": True}),
    ]
    return [t.rand(()).item() for check, chosen in settings if check(both, x, **chosen)]
