"""`gradcheck` and `gradgradcheck` accept and refuse what PyTorch's do, in its words."""

import importlib
import inspect
import sys
from typing import Any

import numpy as np
import pytest
from tests.support.derivatives import (
    RIGHT,
    WRONG,
    Build,
    a_factor_off,
    a_hook_that_adds,
    another_gradient_each_time,
    assert_as_torch,
    function,
    half_detached,
    input_numbered_among_those_that_require_grad,
    leaf,
    of_a_scalar,
    of_an_unused_input,
    outcome,
    power,
    right,
    single_precision,
    undefined_not_zero,
    undefined_refused,
    with_an_integer_output,
)
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint.autograd import GradcheckError, gradcheck, gradgradcheck


@pytest.mark.parametrize("fast_mode", [False, True], ids=["slow", "fast"])
@pytest.mark.parametrize("build", RIGHT)
def test_right_gradients_pass_as_in_torch(build: Build, fast_mode: bool) -> None:
    assert assert_as_torch("gradcheck", build, fast_mode=fast_mode) is True


@pytest.mark.parametrize("fast_mode", [False, True], ids=["slow", "fast"])
@pytest.mark.parametrize("build", WRONG)
def test_wrong_gradients_are_refused_as_in_torch(build: Build, fast_mode: bool) -> None:
    name, message = assert_as_torch("gradcheck", build, fast_mode=fast_mode)
    assert name in {"GradcheckError", "ValueError", "RuntimeError", "AssertionError"}
    assert message


@pytest.mark.parametrize("build", WRONG)
def test_without_raise_exception_only_gradcheck_errors_become_false(build: Build) -> None:
    refused = outcome(ad, "gradcheck", build, {})
    quiet = assert_as_torch("gradcheck", build, raise_exception=False)
    assert quiet == (False if refused[0] == "GradcheckError" else refused)


@pytest.mark.parametrize(("build", "options"), [
    (a_factor_off, {"rtol": 0.02}), (a_factor_off, {"rtol": 0.0, "atol": 0.06}), (a_hook_that_adds, {"atol": 0.1}),
    (a_hook_that_adds, {"atol": 0.1, "masked": True}), (another_gradient_each_time, {"nondet_tol": 1e-3}),
    (undefined_refused, {"check_undefined_grad": False}), (undefined_not_zero, {"check_undefined_grad": False}),
    (single_precision, {"eps": 1e-2}), (single_precision, {"eps": 1e-2, "check_grad_dtypes": True}),
    (right, {"check_backward_ad": False}),
    (right, {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True}),
    (right, {"check_batched_forward_grad": True}),
])  # fmt: skip
def test_options_count_as_in_torch(build: Build, options: dict[str, Any]) -> None:
    for fast_mode in (False, True):
        assert_as_torch("gradcheck", build, **options, fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True], ids=["slow", "fast"])
@pytest.mark.parametrize("options", [{}, {"gen_non_contig_grad_outputs": True}], ids=["contiguous", "apart"])
@pytest.mark.parametrize("build", [right, power, of_a_scalar, with_an_integer_output, of_an_unused_input])
def test_right_second_gradients_pass_as_in_torch(build: Build, options: dict[str, Any], fast_mode: bool) -> None:
    assert assert_as_torch("gradgradcheck", build, **options, fast_mode=fast_mode) is True


@pytest.mark.parametrize(("build", "options"), [
    (half_detached, {}),
    (half_detached, {"raise_exception": False}),
    (power, {"check_rev_over_rev": False}),
    (power, {"check_rev_over_rev": False, "check_fwd_over_rev": True}),
    (power, {"check_rev_over_rev": False, "check_fwd_over_rev": True, "check_undefined_grad": False,
             "check_batched_grad": True}),
])  # fmt: skip
def test_wrong_second_gradients_and_settings_are_refused_as_in_torch(build: Build, options: dict[str, Any]) -> None:
    for fast_mode in (False, True):
        assert assert_as_torch("gradgradcheck", build, **options, fast_mode=fast_mode) is not True


def test_the_signatures_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for name in ("gradcheck", "gradgradcheck"):
        ours, theirs = (inspect.signature(getattr(t.autograd, name)).parameters for t in (ad, torch))
        assert [(p.name, p.kind, p.default) for p in ours.values()] == [
            (p.name, p.kind, p.default) for p in theirs.values()
        ]


def test_the_function_and_its_module_share_a_name() -> None:
    module = importlib.import_module("adjoint.autograd.gradcheck")
    assert sys.modules["adjoint.autograd.gradcheck"] is module
    assert ad.autograd.gradcheck is module.gradcheck is gradcheck
    assert module.gradgradcheck is gradgradcheck
    assert module.GradcheckError is GradcheckError
    assert GradcheckError.__module__ == "adjoint.autograd.gradcheck"
    assert issubclass(GradcheckError, RuntimeError)


def test_a_mismatch_shows_both_jacobians_and_how_far_they_are_apart() -> None:
    func, x = a_factor_off(ad)
    message = r"output 0 with respect to input 0,\nnumerical:tensor\(\[\[5.*analytical:tensor\(\[\[5\.05.*: 0\.05\n"
    assert_raises(GradcheckError, f"(?s){message}", gradcheck, func, x)


def test_a_mismatch_in_fast_mode_shows_the_whole_jacobians_too() -> None:
    func, x = a_factor_off(ad)
    message = r"(?s)mismatch for output 0.*computed in fast mode.*Analytical:\ntensor\(\[\[5\.05.*mode\) is: 0\.05"
    with pytest.raises(GradcheckError, match=message) as caught:
        gradcheck(func, x, fast_mode=True)
    assert "slow mode: pass" not in str(caught.value)


def test_fast_mode_says_when_slow_mode_would_pass() -> None:
    # each element is off by 0.9 of what is allowed, but by more along a direction of mixed slopes
    flip = np.array([1.0, -1.0])
    wrong = function(
        ad, lambda ctx, x: x * ad.tensor(flip), lambda ctx, g: g * ad.tensor(flip) + g * ad.tensor([9e-4, 9e-4])
    )
    x = leaf(ad, 1.0, 1.0)
    assert gradcheck(wrong, x, atol=0.0)
    with pytest.raises(GradcheckError, match="Fast gradcheck failed but element-wise differences are small"):
        gradcheck(wrong, x, atol=0.0, fast_mode=True)


def test_a_mismatch_names_the_argument_when_its_number_is_another() -> None:
    with pytest.raises(GradcheckError, match=r"input 0,(?s:.*)Input 0 .* is argument 1 of the function"):
        gradcheck(*input_numbered_among_those_that_require_grad(ad))


def test_inputs_in_less_than_double_precision_warn() -> None:
    func, x = single_precision(ad)
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision") as caught:
        assert gradcheck(func, x, eps=1e-2)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("build", [undefined_refused, undefined_not_zero])
def test_undefined_gradients_warn_before_they_are_refused(build: Build) -> None:
    with (
        pytest.warns(UserWarning, match="Backwards compatibility: New undefined gradient support checking feature"),
        pytest.raises(GradcheckError, match="undefined"),
    ):
        gradcheck(*build(ad))


@pytest.mark.parametrize("result", [{"y": 1}, 1.0, None, (1,)])
def test_results_that_are_no_tensors_are_refused(result: Any) -> None:
    assert_raises(TypeError, "output 0 is a ", lambda: gradcheck(lambda x: result, leaf(ad, 1.0)))


def test_integers_before_the_gradient_are_no_obstacle() -> None:  # in PyTorch they are
    assert gradcheck(lambda x: (x.long(), x > 1, x * 2), leaf(ad, 1.5))
    wrong = a_factor_off(ad)[0]
    assert_raises(GradcheckError, "output 0", lambda: gradcheck(lambda x: (x.long(), wrong(x)), leaf(ad, 1.5)))


def test_a_nested_input_that_requires_grad_is_refused() -> None:
    with pytest.raises(ValueError, match="input 1 is a list with one that requires grad"):
        gradcheck(lambda x, ys: x * ys[0], (leaf(ad, 1.0), [leaf(ad, 2.0)]))


def test_other_errors_pass_through() -> None:
    def broken(x: Any) -> Any:
        raise RuntimeError("mine")

    assert_raises(RuntimeError, "mine", lambda: gradcheck(broken, leaf(ad, 1.0), raise_exception=False))


@pytest.mark.parametrize("fast_mode", [False, True])
def test_inputs_are_as_before_even_after_an_error(fast_mode: bool) -> None:
    x = leaf(ad, 1.0, 0.1)
    version = x._version
    assert gradcheck(ad.exp, x, fast_mode=fast_mode)

    def breaks_when_moved(x: Any) -> Any:
        if x.tolist() != [1.0, 0.1]:
            raise RuntimeError("moved")
        return x * 2

    assert_raises(RuntimeError, "moved", gradcheck, breaks_when_moved, x, fast_mode=fast_mode)
    assert (x.tolist(), x._version) == ([1.0, 0.1], version)
    assert x.grad is None


def test_the_random_state_is_left_alone() -> None:
    ad.manual_seed(3)
    before = ad.get_rng_state().tolist()
    assert gradcheck(ad.exp, leaf(ad, 1.0), fast_mode=True)
    assert gradcheck(ad.exp, leaf(ad, 1.0), check_forward_ad=True)
    assert ad.get_rng_state().tolist() == before


def test_the_function_is_called_as_often_as_in_torch() -> None:
    torch = pytest.importorskip("torch")
    counts = []
    for t in (ad, torch):
        calls: list[int] = []
        x, y = leaf(t, 1.0, 2.0), leaf(t, 3.0)
        assert t.autograd.gradcheck(lambda x, y, c=calls: c.append(0) or (x * y, x + y), (x, y))
        assert t.autograd.gradcheck(lambda x, y, c=calls: c.append(0) or x * y, (x, y), fast_mode=True)
        counts.append(len(calls))
    assert counts[0] == counts[1]


def test_second_gradients_with_given_and_with_scattered_weights() -> None:
    seen: list[Any] = []

    def backward(ctx: Any, g: Any) -> Any:
        seen.append(g)
        return g * 3

    triple = function(ad, lambda ctx, x: x * 3, backward)
    x, weight = leaf(ad, 1.0, 2.0, 3.0), leaf(ad, 0.5, -1.0, 2.0)
    assert gradgradcheck(triple, x, weight)
    assert seen[0].tolist() == [0.5, -1.0, 2.0]
    seen.clear()
    assert gradgradcheck(triple, x, gen_non_contig_grad_outputs=True)
    assert not seen[0].is_contiguous()
    assert gradgradcheck(triple, x, (weight.detach(),))


def test_second_gradients_need_a_first() -> None:
    with pytest.raises(ValueError, match="no output of the function requires grad"):
        gradgradcheck(lambda x: x.detach(), leaf(ad, 1.0))


def test_gradients_of_another_type_or_size_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # the engine hands out none, so the walk is replaced
    def check(g: Any, **options: Any) -> None:
        monkeypatch.setattr("adjoint.testing.gradcheck.analytical.grad", lambda *args, **more: (g,))
        gradcheck(lambda x: x * 1, leaf(ad, 1.0), **options)

    check(ad.ones(1))
    assert_raises(GradcheckError, "Gradient has dtype mismatch", lambda: check(ad.ones(1), check_grad_dtypes=True))
    assert_raises(GradcheckError, "Analytical gradient has incorrect size", lambda: check(ad.ones(2, dtype=ad.float64)))


def test_numerical_jacobians() -> None:
    from adjoint.autograd.gradcheck import get_numerical_jacobian, get_numerical_jacobian_wrt_specific_input

    a, b = leaf(ad, 1.0, 2.0), leaf(ad, 3.0, 4.0)
    func = lambda xs: (2 * xs[0] + xs[1], xs[0])  # noqa: E731
    with pytest.warns(FutureWarning, match="`get_numerical_jacobian` was part of PyTorch's private API"):
        by_a, by_b = get_numerical_jacobian(func, (a, b), eps=1e-6)
    np.testing.assert_allclose(by_a.numpy(), 2 * np.eye(2), atol=1e-8)
    np.testing.assert_allclose(by_b.numpy(), np.eye(2), atol=1e-8)
    with pytest.warns(FutureWarning):
        (only,) = get_numerical_jacobian(func, (a, b), target=b, eps=1e-6)
    np.testing.assert_allclose(only.numpy(), np.eye(2), atol=1e-8)
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match=r"Expected grad_out to be 1\.0"):
        get_numerical_jacobian(func, (a, b), grad_out=2.0)
    z = leaf(ad, 1 + 2j, dtype="complex128")
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="Expected output to be non-complex"):
        get_numerical_jacobian(lambda xs: xs[0] * 1j, z)
    apart = get_numerical_jacobian_wrt_specific_input(lambda x, y: (x * y, y), 1, (a, b), (a * b, b), 1e-6)
    np.testing.assert_allclose([j.numpy() for j in apart], [np.diag([1.0, 2.0]), np.eye(2)], atol=1e-8)
    with pytest.raises(AssertionError, match="input to have requires_grad=True"):
        get_numerical_jacobian_wrt_specific_input(ad.exp, 0, a.detach(), (a,), 1e-6)


def test_analytical_jacobians() -> None:
    from adjoint.autograd.gradcheck import get_analytical_jacobian

    a, b = leaf(ad, 1.0, 2.0), leaf(ad, 3.0, 4.0)
    with pytest.warns(FutureWarning, match="`get_analytical_jacobian` was part of PyTorch's private API"):
        jacobians, reentrant, sizes_ok, types_ok = get_analytical_jacobian((a, b), 2 * a + b)
    assert [j.tolist() for j in jacobians] == [[[2.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]]]
    assert (reentrant, sizes_ok, types_ok) == (True, True, True)
    func, x = another_gradient_each_time(ad)
    with pytest.warns(FutureWarning):
        assert not get_analytical_jacobian((x,), func(x))[1]
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match=r"Expected grad_out to be 1\.0"):
        get_analytical_jacobian((a,), a * 2, grad_out=0.5)
