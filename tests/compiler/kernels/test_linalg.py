"""Factorizations and solutions as kernels: backward errors beside LAPACK's, layouts, errors, compiled and eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import gradcheck, gradgradcheck

pytest.importorskip("llvmlite")

SIZES = (0, 1, 2, 3, 5, 8, 16, 17, 31, 32, 33, 64, 100, 300)
DTYPES = {"float32": ad.float32, "float64": ad.float64}
LEADS: tuple[tuple[int, ...], ...] = ((), (9,), (2, 3))
MAX_ERRORS = 2.0  # of rounding, in norms: the backward error of a stable algorithm
Array = np.ndarray[Any, Any]


def _sizes_of(lead: tuple[int, ...]) -> tuple[int, ...]:
    return SIZES if not lead else tuple(n for n in SIZES if n <= 33)


def _random(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(dtype)


def _definite(dtype: str, *shape: int) -> Array:
    x = _random("float64", *shape)
    return (x @ np.swapaxes(x, -1, -2) / max(shape[-1], 1) + np.eye(shape[-1])).astype(dtype)


def _errors(a: Array, x: Array, b: Array) -> float:
    """The backward error of a x = b, the largest of all matrices, in units of rounding."""
    if not x.size:
        return 0.0
    unit = np.finfo(x.dtype).eps
    a, x, b = (v.astype(np.float64) for v in (a, x, b))
    size = np.linalg.norm(a, axis=(-2, -1)) * np.linalg.norm(x, axis=(-2, -1))
    return float((np.linalg.norm(a @ x - b, axis=(-2, -1)) / size).max() / unit)


def _tensor(x: Array) -> ad.Tensor:
    return ad.tensor(x, dtype=DTYPES[str(x.dtype)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", LEADS)
def test_solutions_have_small_backward_errors(dtype: str, lead: tuple[int, ...]) -> None:
    for n in _sizes_of(lead):
        a, definite = _random(dtype, *lead, n, n), _definite(dtype, *lead, n, n)
        factor = ad.linalg.cholesky(_tensor(definite)).numpy()
        assert _errors(factor, np.swapaxes(factor, -1, -2), definite) < MAX_ERRORS
        assert not np.triu(factor, 1).any()
        assert _errors(a, ad.linalg.inv(_tensor(a)).numpy(), np.eye(n)) < MAX_ERRORS
        for columns in (1, 5, n):
            b = _random(dtype, *lead, n, columns)
            x = ad.linalg.solve(_tensor(a), _tensor(b)).numpy()
            assert _errors(a, x, b) < MAX_ERRORS
            if dtype == "float64" and n and columns:
                assert _errors(a, x, b) < 3 * _errors(a, np.linalg.solve(a, b), b) + 0.5


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_systems_of_every_kind(dtype: str, lead: tuple[int, ...], upper: bool, unit: bool) -> None:
    for n in _sizes_of(lead):
        whole = _random(dtype, *lead, n, n) / np.asarray(n + 1, dtype)
        whole[..., range(n), range(n)] = 1 if unit else 2
        triangle = np.triu(whole) if upper else np.tril(whole)
        other = whole.copy()  # what is not read
        other[..., range(n), range(n)] = np.nan if unit else 2
        b = _random(dtype, *lead, n, 3)
        for a in (other, np.swapaxes(np.swapaxes(other, -1, -2).copy(), -1, -2)):
            x = ad.linalg.solve_triangular(_tensor(a), _tensor(b), upper=upper, unitriangular=unit)
            assert _errors(triangle, x.numpy(), b) < MAX_ERRORS
        turned = _tensor(np.swapaxes(b, -1, -2))
        x = ad.linalg.solve_triangular(_tensor(other).mT, turned, upper=not upper, left=False, unitriangular=unit)
        assert _errors(triangle, np.swapaxes(x.numpy(), -1, -2), b) < MAX_ERRORS


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", LEADS)
def test_determinants_are_numpys(dtype: str, lead: tuple[int, ...]) -> None:
    close = 1e-3 if dtype == "float32" else 1e-9
    for n in _sizes_of(lead):
        a = _random(dtype, *lead, n, n)
        sign, logarithm = np.linalg.slogdet(a.astype(np.float64))
        found = ad.linalg.slogdet(_tensor(a))
        np.testing.assert_array_equal(found.sign.numpy(), sign)
        np.testing.assert_allclose(found.logabsdet.numpy(), logarithm, rtol=close, atol=close)
        if n <= 33:
            np.testing.assert_allclose(ad.linalg.det(_tensor(a)).numpy(), np.linalg.det(a.astype("f8")), rtol=close)


FUNCTIONS: dict[str, Callable[..., ad.Tensor]] = {
    "cholesky": lambda a, b: ad.linalg.cholesky(a @ a.mT + ad.eye(a.shape[-1], dtype=a.dtype)),
    "upper": lambda a, b: ad.linalg.cholesky(a @ a.mT + ad.eye(a.shape[-1], dtype=a.dtype), upper=True),
    "cholesky_solve": lambda a, b: ad.cholesky_solve(b, a),
    "cholesky_inverse": lambda a, b: ad.cholesky_inverse(a),
    "solve_triangular": lambda a, b: ad.linalg.solve_triangular(a, b, upper=False),
    "right": lambda a, b: ad.linalg.solve_triangular(a, b.mT, upper=True, left=False),
    "unitriangular": lambda a, b: ad.linalg.solve_triangular(a, b, upper=True, unitriangular=True),
    "solve": lambda a, b: ad.linalg.solve(a, b),
    "inv": lambda a, b: ad.linalg.inv(a),
    "det": lambda a, b: ad.linalg.det(a),
    "logabsdet": lambda a, b: ad.linalg.slogdet(a).logabsdet,
}


def _operands(lead: tuple[int, ...], n: int) -> tuple[ad.Tensor, ad.Tensor]:
    a = _tensor(_random("float64", *lead, n, n) / n + 2 * np.eye(n)).requires_grad_()
    return a, _tensor(_random("float64", n, 2)).requires_grad_()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_every_order_and_mode(name: str) -> None:
    function, (a, b) = FUNCTIONS[name], _operands((2,), 3)
    assert gradcheck(function, (a, b), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(function, (a, b))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("lead", "n"), [((), 7), ((9,), 3), ((2,), 20)])
def test_a_compiled_step_computes_what_eager_calls_do(name: str, lead: tuple[int, ...], n: int) -> None:
    function = FUNCTIONS[name]

    def step(a: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
        out = function(a, b)
        (out * out).sum().backward()
        return out.detach()

    results = []
    for run in (step, ad.compile(step)):
        a, b = _operands(lead, n)
        results.append((run(a, b), a.grad, b.grad))
    for eager, compiled in zip(*results, strict=True):
        assert (eager is None) == (compiled is None)
        if eager is not None:
            np.testing.assert_allclose(compiled.numpy(), eager.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["cholesky", "solve_triangular", "solve", "inv", "det", "logabsdet"])
def test_a_compiled_step_calls_no_numpy(name: str) -> None:
    step = ad.compile(lambda a, b: FUNCTIONS[name](a.detach(), b.detach()))
    step(*_operands((2,), 4))
    assert "0 NumPy calls" in str(step.explain())


def test_numpy_computes_the_same_without_kernels() -> None:
    for name, function in FUNCTIONS.items():
        a, b = (x.detach() for x in _operands((2,), 20))
        by_kernel = function(a, b)
        with ad.compiler.eager_kernels(False):
            np.testing.assert_allclose(function(a, b).numpy(), by_kernel.numpy(), rtol=1e-9, atol=1e-12, err_msg=name)


def test_operands_are_read_where_they_lie() -> None:
    big = _random("float64", 4, 6, 2, 12) + 4 * np.eye(6, 12)[:, None]
    a, b = _tensor(big)[::2, :, 1, :6], _tensor(_random("float64", 5, 6)).mT.expand(2, 6, 5)
    for function in (ad.linalg.solve, lambda a, b: ad.linalg.solve_triangular(a, b, upper=True)):
        for f in (function, ad.compile(function)):
            expected = function(a.clone(), b.clone())
            np.testing.assert_array_equal(f(a, b).numpy(), expected.numpy())
            np.testing.assert_array_equal(f(a, b[0]).numpy(), expected.numpy())
    lead = _tensor(_random("float64", 3, 1, 2, 4, 4) + 4 * np.eye(4))  # no one step from each matrix to the next
    right = _tensor(_random("float64", 5, 1, 4, 1))
    assert _errors(lead.numpy(), ad.linalg.solve(lead, right).numpy(), right.numpy()) < MAX_ERRORS


@pytest.mark.parametrize("shape", [(4, 4), (3, 4, 4), (9, 4, 4)])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_matrix_without_result_raises_at_its_line(shape: tuple[int, ...], compiled: bool) -> None:
    bad = _definite("float64", *shape)
    bad[(-1,) * (len(shape) - 2)] = np.diag([1.0, 2.0, -1.0, 1.0])
    where = rf"\(Batch element {shape[0] - 1}\): " if len(shape) == 3 else ""
    cholesky: Any = lambda x: ad.linalg.cholesky(x) + 1.0  # noqa: E731
    with pytest.raises(ad.linalg.LinAlgError, match=f"linalg.cholesky: {where}.*leading minor of order 3"):
        (ad.compile(cholesky) if compiled else cholesky)(_tensor(bad))
    bad[(-1,) * (len(shape) - 2)] = np.diag([1.0, 0.0, 1.0, 1.0])
    inv: Any = lambda x: ad.linalg.inv(x) + 1.0  # noqa: E731
    with pytest.raises(ad.linalg.LinAlgError, match=f"linalg.inv: {where}The diagonal element 2 is zero"):
        (ad.compile(inv) if compiled else inv)(_tensor(bad))
    solve: Any = lambda x: ad.linalg.solve(x, x) + 1.0  # noqa: E731
    with pytest.raises(ad.linalg.LinAlgError, match=f"linalg.solve: {where}The solver failed"):
        (ad.compile(solve) if compiled else solve)(_tensor(bad))


def test_a_check_that_fails_leaves_the_state_of_a_step() -> None:
    count = ad.zeros(())

    @ad.compile
    def step(x: ad.Tensor) -> ad.Tensor:
        factor = ad.linalg.cholesky(x)
        count.add_(1.0)
        return factor

    step(_tensor(_definite("float32", 5, 5)))
    with pytest.raises(ad.linalg.LinAlgError):
        step(_tensor(-_definite("float32", 5, 5)))
    assert count.item() == 1.0


def test_info_tells_which_matrices_have_a_result() -> None:
    good = _definite("float64", 4, 4)
    stack = _tensor(np.stack([good, np.diag([1.0, -1.0, 1.0, 1.0]), good, good * np.nan, good]))
    factor, info = ad.linalg.cholesky_ex(stack)
    assert info.tolist() == [0, 2, 0, 1, 0]
    assert factor.isnan().any(-1).any(-1).tolist() == [False, True, False, True, False]
    inverse, info = ad.linalg.inv_ex(_tensor(np.stack([good, np.ones((4, 4))])))
    assert info.tolist() == [0, 2]
    assert inverse.isnan().all(-1).all(-1).tolist() == [False, True]


def test_lapack_solves_what_leaves_the_caches() -> None:
    a = _random("float32", 600, 600)
    x = ad.linalg.inv(_tensor(a))
    with ad.compiler.eager_kernels(False):
        np.testing.assert_array_equal(ad.linalg.inv(_tensor(a)).numpy(), x.numpy())


@pytest.mark.parametrize("count", [1, 5])
def test_nan_is_no_error_of_an_inverse(count: int) -> None:
    stack = _tensor(np.stack([np.diag([np.nan, 1.0])] * count))
    assert ad.linalg.inv(stack).isnan().all()
    assert ad.linalg.solve(stack, stack).isnan().all()
    sign, logarithm = ad.linalg.slogdet(stack)
    assert sign.tolist() == [0.0] * count  # as PyTorch has it
    assert logarithm.isnan().all()
    with pytest.raises(ad.linalg.LinAlgError, match="order 1 is not positive-definite"):
        ad.linalg.cholesky(stack)


def test_threads_do_not_change_the_numbers() -> None:
    def step(a: ad.Tensor, b: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        return ad.linalg.solve(a, b), ad.linalg.cholesky(a @ a.mT)

    for n in (4, 40):
        a, b = _tensor(_random("float32", 67, n, n) + 9 * np.eye(n, dtype="float32")), _tensor(_random("float32", n, 3))
        results, before = [], ad.get_num_threads()
        try:
            for threads in (1, 2):
                ad.set_num_threads(threads)
                results.append(ad.compile(step)(a, b))
        finally:
            ad.set_num_threads(before)
        for one, two in zip(*results, strict=True):
            np.testing.assert_array_equal(one.numpy(), two.numpy())


def test_vmap_maps_over_stacks() -> None:
    a, b = (x.detach() for x in _operands((5,), 3))
    for name, function in FUNCTIONS.items():
        mapped = ad.vmap(function, in_dims=(0, None))(a, b)
        np.testing.assert_allclose(mapped.numpy(), function(a, b).numpy(), rtol=1e-12, err_msg=name)
