"""Right answers where PyTorch's own differ: numbers of mpmath, and of central differences with one extrapolation.

The differences (h = 10⁻³ and h / 2, float64) are of the values alone, in which both libraries agree.
"""

from typing import Any

import numpy as np
import pytest

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.func import jvp, vmap


def double(values: Any) -> ad.Tensor:
    return ad.tensor(values, dtype=ad.float64)


# a lower triangle with numbers above it that are not read
TRIANGLE = double([[2.0, 0.7, 0.7], [0.5, 1.5, 0.7], [-0.3, 0.2, 1.1]])
RIGHT_SIDE = double([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]])
DIRECTION = double(np.sin(np.arange(9.0)).reshape(3, 3))


def weighted_gradient(out: ad.Tensor, x: ad.Tensor) -> np.ndarray:
    """The gradient of Σ cos(i) out[i]."""
    weights = double(np.cos(np.arange(float(out.numel()))).reshape(tuple(out.shape)))
    return ad.autograd.grad((out * weights).sum(), x)[0].numpy()


def test_an_inverse_by_cholesky_has_no_slope_in_what_it_does_not_read() -> None:
    """PyTorch gives a gradient to the other triangle too."""
    x = TRIANGLE.clone().requires_grad_()
    np.testing.assert_allclose(
        weighted_gradient(ad.cholesky_inverse(x), x),
        [
            [-0.376294566824, 0.0, 0.0],
            [0.264521537823, 0.348829922878, 0.0],
            [-0.401094549119, -0.488575207448, 0.227079067827],
        ],
        atol=1e-9,
    )
    np.testing.assert_allclose(
        weighted_gradient(ad.cholesky_solve(RIGHT_SIDE, x), x),
        [
            [-0.673139230662, 0.0, 0.0],
            [0.288852500435, -0.130861344167, 0.0],
            [-0.538499684125, 1.622800929711, -0.403462024134],
        ],
        atol=1e-9,
    )


def test_the_tangent_of_a_triangular_solution() -> None:
    """PyTorch's is wrong by a third or more."""
    _, tangent = jvp(lambda a: ad.triangular_solve(RIGHT_SIDE, a, upper=False)[0], (TRIANGLE,), (DIRECTION,))
    expected = [[0.0, 0.0], [0.877940824912, -0.598615002245], [-1.359264133414, 0.346875142261]]
    np.testing.assert_allclose(tangent.numpy(), expected, atol=1e-9)


def test_symmetric_tangents_of_factors_and_eigenvalues() -> None:
    """For unsymmetric ones the tangent is the transpose of the gradient, which PyTorch's is not."""
    lower = TRIANGLE.tril()
    x, t = lower @ lower.T, DIRECTION + DIRECTION.T
    expected = [
        [0.0, 0.0, 0.0], [0.4912954964, -0.6683001623, 0.0], [0.3149409643, -0.1189063178, 1.0069289086],
    ]  # fmt: skip
    np.testing.assert_allclose(jvp(ad.linalg.cholesky, (x,), (t,))[1].numpy(), expected, atol=1e-8)
    expected_values = [1.8101940963, -1.7320469086, 0.3869643149]
    np.testing.assert_allclose(jvp(ad.linalg.eigvalsh, (x,), (t,))[1].numpy(), expected_values, atol=1e-8)
    for function in (ad.linalg.cholesky, lambda a: ad.linalg.eigh(a)[0], lambda a: ad.linalg.cholesky_ex(a)[0]):
        pushed = jvp(function, (x,), (DIRECTION,))[1]
        weights = ad.cos(ad.arange(float(pushed.numel()), dtype=ad.float64)).reshape(pushed.shape)
        leaf = x.clone().requires_grad_()
        (pulled,) = ad.autograd.grad((function(leaf) * weights).sum(), leaf)
        np.testing.assert_allclose((pushed * weights).sum().item(), (pulled * DIRECTION).sum().item(), rtol=1e-12)


def test_what_is_written_over_has_no_gradient() -> None:
    """PyTorch's `as_strided_scatter` keeps the gradient of these elements."""
    x, source = ad.arange(6.0).requires_grad_(), ad.zeros(2, 2, requires_grad=True)
    out = ad.as_strided_scatter(x, source, (2, 2), (3, 1), 1)
    weights = ad.arange(1.0, 7.0)
    first, second = ad.autograd.grad((out * weights).sum(), (x, source))
    assert first.tolist() == [1.0, 0.0, 0.0, 4.0, 0.0, 0.0]
    assert second.tolist() == [[2.0, 3.0], [5.0, 6.0]]


def test_the_slope_of_hardsigmoid_is_a_sixth_in_double_precision() -> None:
    """PyTorch multiplies by a sixth of float32."""
    x = double([-4.0, -1.0, 0.5, 2.0, 4.0]).requires_grad_()
    (slope,) = ad.autograd.grad(F.hardsigmoid(x).sum(), x)
    np.testing.assert_allclose(slope.numpy(), [0.0, 1 / 6, 1 / 6, 1 / 6, 0.0], rtol=1e-15)
    tangent = jvp(F.hardsigmoid, (x.detach(),), (ad.ones_like(x),))[1]
    np.testing.assert_allclose(tangent.numpy(), slope.numpy(), rtol=1e-15)


def test_the_tangent_of_logcumsumexp() -> None:
    """The mean of the tangents so far, weighed by eˣ (mpmath); PyTorch's is off by up to 3e-6."""
    x, t = double([-3.0, 0.5, 7.0, -20.0, 7.25]), double([1.0, -2.0, 0.5, 4.0, -1.5])
    expected = [1.0, -1.912063307745931, 0.4962698793392492, 0.4962698793458244, -0.6252256297717083]
    np.testing.assert_allclose(jvp(lambda v: ad.logcumsumexp(v, 0), (x,), (t,))[1].numpy(), expected, rtol=1e-14)


@pytest.mark.parametrize("options", [{}, {"reduction": "none"}, {"reduction": "sum"}])
def test_the_tangent_of_a_linear_cross_entropy(options: dict[str, str]) -> None:
    """By mpmath; PyTorch has no tangent of its chunked forms."""
    x, dx = double([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]]), double([[1.0, 2.0, -1.0], [0.0, 0.5, 0.25]])
    w = double([[1.0, 0.5, -1.0], [0.0, 2.0, 0.25], [-0.5, 1.0, 1.0], [0.75, -0.25, 0.0]])
    dw = double([[0.1, -0.2, 0.3], [0.4, 0.0, -0.1], [0.0, 0.2, 0.5], [-0.3, 0.1, 0.2]])
    target = ad.tensor([2, 0])
    value, tangent = jvp(lambda a, b: F.linear_cross_entropy(a, b, target, **options), (x, w), (dx, dw))
    if options:
        value, tangent = value.sum() / 2, tangent.sum() / 2
    np.testing.assert_allclose(value.item(), 0.535724051296381, rtol=1e-14)
    np.testing.assert_allclose(tangent.item(), -0.05692048961349515, rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        (ad.special.airy_ai, -3.063683, -0.39648853582776716),  # PyTorch 7e-9 off, its Bessel functions 3e-8 and more
        (ad.special.bessel_j0, 5.75, 0.07597533201690107),
        (ad.special.bessel_j1, 5.75, -0.3179445239193327),
        (ad.special.bessel_y0, 5.75, -0.32333323801254144),
        (ad.special.bessel_y1, 5.75, -0.10417130815472234),
    ],
)
def test_special_functions_have_the_digits_of_double_precision(function: Any, x: float, expected: float) -> None:
    np.testing.assert_allclose(function(double(x)).item(), expected, rtol=1e-13)


def test_the_normal_distribution_far_below() -> None:
    """In float32; PyTorch's is 0."""
    np.testing.assert_allclose(ad.special.ndtr(ad.tensor(-8.4784)).item(), 1.1415570274914339e-17, rtol=1e-5)


def test_norms_at_zero_have_the_second_derivative_of_the_chosen_slope() -> None:
    """It is 0; PyTorch's is NaN."""
    x = ad.zeros(3, dtype=ad.float64, requires_grad=True)
    for p in (2, 1, float("inf")):
        (first,) = ad.autograd.grad(ad.linalg.vector_norm(x, p), x, create_graph=True)
        assert first.tolist() == [0.0] * 3
        if first.requires_grad:
            (second,) = ad.autograd.grad(first.sum(), x, allow_unused=True)
            assert second is None or second.tolist() == [0.0] * 3


def test_the_gradient_of_a_bias_depends_on_no_input() -> None:
    """Of the input, the weight and the bias; PyTorch's second derivative of it is 0 in all of them."""
    x, w = ad.randn(2, 3, 5, dtype=ad.float64).requires_grad_(), ad.randn(4, 3, 2, dtype=ad.float64).requires_grad_()
    b = ad.randn(4, dtype=ad.float64).requires_grad_()
    (slope,) = ad.autograd.grad(F.conv1d(x, w, b).sum(), b, create_graph=True)
    assert slope.tolist() == [8.0] * 4
    assert not slope.requires_grad


def test_truths_of_fractions_are_written_as_bytes() -> None:
    """PyTorch casts the input to the type of `out`, so that ½ is 0."""
    out = ad.zeros((), dtype=ad.uint8)
    assert ad.all(ad.tensor([0.5, 2.0]), out=out).item() == 1
    assert ad.any(ad.tensor([0.5, 0.0]), out=out).item() == 1


def test_sums_of_fractions_that_are_numbers_are_written_as_integers() -> None:
    """Which PyTorch has not implemented."""
    out = ad.zeros((), dtype=ad.int64)
    assert ad.nansum(ad.tensor([1.0, float("nan"), 2.0]), out=out).item() == 3


@pytest.mark.parametrize("function", [ad.fft.ihfft2, ad.fft.ihfftn])
def test_transforms_over_one_dimension_fill_an_empty_out(function: Any) -> None:
    """PyTorch leaves it empty."""
    x = double(np.cos(np.arange(8.0)).reshape(2, 4))
    out = ad.zeros(0, dtype=ad.complex128)
    function(x, dim=(1,), out=out)
    np.testing.assert_allclose(out.numpy(), np.fft.ihfft(x.numpy(), axis=1), atol=1e-15)


def test_places_of_equal_elements_hold_them() -> None:
    """PyTorch takes another of them."""
    x = ad.tensor([[2, 1, 2, 1, 2], [3, 3, 3, 3, 3]])
    for values, indices in (x.kthvalue(2, 1), x.mode(1), x.topk(1, 1), x.sort(1), x.median(1)):
        at = indices if indices.ndim == 2 else indices[:, None]
        assert x.gather(1, at).reshape(values.shape).tolist() == values.tolist()


def test_places_that_differ_among_examples_are_refused() -> None:
    """PyTorch gives them if there happen to be as many in each."""
    for x in (ad.tensor([[1, 0], [0, 1]]), ad.tensor([[1, 1], [0, 1]])):
        with pytest.raises(RuntimeError, match="nonzero"):
            vmap(ad.argwhere)(x)


def test_interpolation_of_bytes_is_that_of_numbers() -> None:
    """Rounded once; PyTorch computes in fixed point, and finds 10, 16, 21 in the middle row."""
    x = ad.tensor([[0, 10], [20, 31]], dtype=ad.uint8)[None, None]
    exact = F.interpolate(x.double(), size=(3, 3), mode="bilinear", align_corners=False)
    assert exact[0, 0, 1].tolist() == [10.0, 15.25, 20.5]
    found = F.interpolate(x, size=(3, 3), mode="bilinear", align_corners=False)
    assert found[0, 0, 1].tolist() == [10, 15, 20]
