"""NumPy's and SciPy's functions called on tensors: the values are NumPy's, the gradients pass through."""

import operator
import re
from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises

import adjoint as ad
from adjoint.interop.numpy.function_protocol import TABLES
from adjoint.interop.numpy.ufuncs import CALLS

pytestmark = pytest.mark.claim("U22")
A = np.array([[1.3, 2.1, 0.4], [0.7, 3.2, 1.9]])
B = np.array([[0.6, 1.1, 2.4], [1.7, 0.2, 0.9]])
V = np.array([0.3, 1.2, 0.8])
S = np.array([[2.0, 0.5, 0.1], [0.5, 1.5, 0.2], [0.1, 0.2, 1.0]])
GIVEN: dict[str, Any] = {"np": np, "A": A, "B": B, "V": V, "S": S}
CALLED = """
np.sin(A) np.exp(A) np.log(A) np.sqrt(A) np.tanh(A) np.add(A,B) np.add(A,B[0]) np.multiply(B,A) np.divide(V,A)
np.power(A,2) np.power(2.0,A) np.power(A,V) np.arctan2(A,B) np.hypot(A,B) np.maximum(A,B) np.fmin(A,1.0)
np.negative(A) np.absolute(A-1) np.reciprocal(A) np.square(A) np.expm1(A) np.log1p(A) np.logaddexp(A,B) np.deg2rad(A)
np.float_power(A,2) np.matmul(A,S) np.matmul(S,V) np.vecdot(A,B) np.add.reduce(A) np.add.reduce(A,axis=(0,1))
np.multiply.reduce(A,axis=1) np.maximum.reduce(A,axis=None,keepdims=True) np.add.accumulate(A)
np.multiply.accumulate(A,axis=1) np.multiply.outer(V,A) np.subtract.outer(V,V) np.clip(A,0.5,2) np.clip(A,min=1)
np.clip(A,V,3.0) np.modf(A)[0] np.divmod(A,0.5)[1] np.sum(A) np.sum(A,axis=0) np.sum(A,1,keepdims=True)
np.prod(A,axis=1) np.mean(A) np.mean(A,axis=(0,1)) np.std(A,axis=0) np.var(A,ddof=1) np.var(A,axis=1,keepdims=True)
np.max(A,axis=1) np.amin(A) np.ptp(A,axis=0) np.cumsum(A) np.cumsum(A,axis=0) np.cumprod(A,axis=1)
np.average(A,axis=1,weights=V) np.average(A) np.median(A) np.median(A,axis=1) np.quantile(A,0.3,axis=0)
np.percentile(A,[20,60]) np.nansum(A,axis=0) np.nanmean(A) np.nanmax(A,axis=1) np.diff(A) np.diff(A,axis=0)
np.trapezoid(A) np.trapezoid(A,V) np.sort(A) np.sort(A,axis=0) np.concatenate([A,B]) np.concatenate((A,V),axis=None)
np.stack([A,B],axis=-1) np.vstack([A,V]) np.hstack([A,B]) np.dstack([A,B]) np.column_stack([V,V]) np.append(A,V)
np.reshape(A,(3,2)) np.ravel(A) np.transpose(A) np.moveaxis(A,0,1) np.swapaxes(A,0,1) np.expand_dims(A,(0,2))
np.squeeze(A[:1]) np.broadcast_to(V,(2,3)) np.tile(V,2) np.repeat(A,2,axis=1) np.repeat(A,[1,2],axis=0) np.roll(A,1)
np.roll(A,1,axis=0) np.flip(A) np.fliplr(A) np.rot90(A) np.atleast_2d(V) np.split(A,3,axis=1)[1]
np.array_split(V,2)[0] np.pad(A,1) np.pad(A,((1,0),(0,2)),constant_values=3.0) np.where(A>1,A,0.0) np.where(A>1,A,V)
np.take(A,[0,2],axis=1) np.take(A,4) np.take_along_axis(A,np.array([[0],[2]]),axis=1) np.tril(S) np.triu(A,1)
np.diag(S) np.diag(V) np.diagonal(S,1) np.trace(S) np.round(A)+A np.real(A) np.nan_to_num(A) np.sinc(A) np.dot(A,S)
np.dot(V,V) np.dot(A,2.0) np.inner(A,B) np.outer(V,V) np.vdot(A,B) np.tensordot(A,B,axes=([0,1],[0,1])) np.kron(A,B)
np.cross(V,S) np.einsum('ij,jk->ik',A,S) np.einsum('ij->j',A) np.linalg.norm(A) np.linalg.norm(A,axis=1)
np.linalg.norm(V,1) np.linalg.inv(S) np.linalg.det(S) np.linalg.slogdet(S)[1] np.linalg.solve(S,V)
np.linalg.cholesky(S) np.linalg.eigvalsh(S) np.linalg.svd(A,compute_uv=False) np.linalg.pinv(A)
np.linalg.matrix_power(S,3) np.linalg.multi_dot([A,S,S]) np.linalg.trace(S) np.linalg.vector_norm(A,axis=0)
np.linalg.matrix_norm(A) np.linalg.cond(S) np.abs(np.fft.rfft(A)) np.real(np.fft.fft(A,axis=0))
np.fft.irfft(np.fft.rfft(V,n=4)) np.fft.fftshift(A) np.meshgrid(V,V)[0] np.add(*np.broadcast_arrays(A,V)) np.copy(A)
np.i0(V) np.fix(A)+A np.around(A,1)+A
"""
# Their gradient is zero, or nobody asks for one.
COUNTED = """
np.argmax(A) np.argmin(A,axis=1) np.argsort(A) np.count_nonzero(A>1) np.any(A>3) np.all(A,axis=0) np.isnan(A)
np.floor(A) np.sign(A-1) np.greater(A,B) np.equal(A,A) np.isclose(A,B) np.nonzero(A>1)[0]
np.searchsorted(V[[0,2,1]],A) np.isin(A,V) np.isfinite(A) np.signbit(-A) np.logical_and(A>1,B>1) np.where(A>1)[1]
np.zeros_like(A) np.ones_like(A) np.full_like(A,3) np.rint(A) np.floor_divide(A,0.5) np.heaviside(A-1,0.5)
np.isposinf(A) np.unique(A) np.nextafter(A,B) np.trunc(A) np.linalg.matrix_rank(S)
"""


def tensors(requires_grad: bool, only: str | None = None) -> dict[str, Any]:
    """The arrays as tensors, all or one of them."""
    made = {k: ad.tensor(GIVEN[k], requires_grad=requires_grad) for k in "ABVS" if only in (None, k)}
    return GIVEN | made


@pytest.mark.parametrize("call", CALLED.split())
def test_values_and_gradients(call: str) -> None:
    expected = eval(call, dict(GIVEN))
    for name in (k for k in "ABVS" if call.replace("np.", "").find(k) >= 0):
        given = tensors(True, name)
        out = eval(call, given)
        assert isinstance(out, ad.Tensor), call
        np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-9, atol=1e-12)
        if ">" in call and name not in call.split(">", 1)[1]:
            continue
        assert out.requires_grad, f"{call} lost the gradient of {name}"
        weights = np.cos(np.arange(expected.size)).reshape(expected.shape)
        (out * ad.tensor(weights)).sum().backward()
        direction = np.sin(1 + np.arange(GIVEN[name].size)).reshape(GIVEN[name].shape)
        if call.startswith(("np.linalg.cholesky", "np.linalg.eigvalsh")):
            direction = direction + direction.T
        h = 1e-6
        ends = [(eval(call, GIVEN | {name: GIVEN[name] + s * h * direction}) * weights).sum() for s in (1, -1)]
        slope = (given[name].grad.numpy() * direction).sum()
        assert slope == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5, abs=1e-6), call


@pytest.mark.parametrize("call", COUNTED.split())
@pytest.mark.parametrize("requires_grad", [False, True])
def test_what_is_counted_or_rounded(call: str, requires_grad: bool) -> None:
    expected = np.asarray(eval(call, dict(GIVEN)))
    out = eval(call, tensors(requires_grad))
    if requires_grad and ">" not in call:  # a comparison's result requires no gradient
        assert isinstance(out, ad.Tensor), call
    np.testing.assert_allclose(out.detach().numpy() if isinstance(out, ad.Tensor) else out, expected)


@pytest.mark.parametrize("call", CALLED.split() + COUNTED.split())
def test_programs_that_know_no_tensors_get_arrays(call: str) -> None:
    expected, out = eval(call, dict(GIVEN)), eval(call, tensors(False))
    if is_ufunc(call):
        assert isinstance(out, ad.Tensor), call
    else:
        assert type(out) is type(expected), call
        np.testing.assert_array_equal(out, expected)


def is_ufunc(call: str) -> bool:
    """Whether the call is a ufunc's or an operator's, of tensors."""
    name = re.split(r"[.(]", call)[1]
    return call.endswith("+A") or (isinstance(getattr(np, name), np.ufunc) and call.count("np.") == 1)


@pytest.mark.parametrize("call", ["np.stack([x, x])", "np.sum(x, axis=0)", "np.linalg.norm(x)", "np.atleast_2d(x)"])
@pytest.mark.parametrize("way", ["compile", "vmap", "jvp", "grad", "meta", "bfloat16"])
def test_who_has_no_array_stays_a_tensor(call: str, way: str) -> None:
    seen = []

    def f(x: Any) -> Any:
        out = eval(call, {"np": np, "x": x})
        seen.append(type(out))
        return ad.as_tensor(out).sum()

    x = ad.tensor(A)
    if way == "compile":
        pytest.importorskip("llvmlite")
    if way == "bfloat16":
        pytest.importorskip("ml_dtypes")
    {
        "compile": lambda: ad.compile(f)(x),
        "vmap": lambda: ad.func.vmap(f)(x),
        "jvp": lambda: ad.func.jvp(f, (x,), (x,)),
        "grad": lambda: ad.func.grad(f)(x),
        "meta": lambda: f(x.to("meta")),
        "bfloat16": lambda: f(x.bfloat16()),
    }[way]()
    assert set(seen) == {ad.Tensor}
    assert f(x).item() == pytest.approx(float(np.sum(eval(call, {"np": np, "x": A}))))
    assert seen[-1] is not ad.Tensor


def test_what_asks_about_values() -> None:
    t = ad.tensor(A, requires_grad=True)
    assert np.shape(t) == (2, 3)
    assert np.ndim(t) == 2
    assert np.size(t) == 6
    assert np.size(t, 1) == 3
    assert np.array_equal(t, A) is True
    assert np.allclose(t, B) is False
    assert np.result_type(t.detach()) == np.float64
    assert not np.iscomplexobj(t)
    assert np.may_share_memory(t, t.detach().numpy())


@pytest.mark.parametrize("call", ["np.spacing(t)", "np.histogram(t)", "np.sum(t, where=[True, False, True])",
    "np.add.at(t, [0], 1.0)", "np.add.reduceat(t, [0])", "np.convolve(t, t)"])  # fmt: skip
def test_a_gradient_is_never_lost_in_silence(call: str) -> None:
    t = ad.tensor(V, requires_grad=True)
    with pytest.raises(TypeError, match=r"no differentiable counterpart; use t\.detach\(\)\.numpy\(\)"):
        eval(call, {"np": np, "t": t})


def test_without_a_counterpart_numpy_computes_what_wants_no_gradient() -> None:
    t = ad.tensor(V)
    assert isinstance(np.spacing(t), ad.Tensor)
    np.testing.assert_array_equal(np.spacing(t).numpy(), np.spacing(V))
    np.testing.assert_array_equal(np.histogram(t)[0], np.histogram(V)[0])
    np.testing.assert_array_equal(np.convolve(t, V), np.convolve(V, V))
    assert np.sum(t, where=[True, False, True]) == pytest.approx(1.1)
    mantissa, exponent = np.frexp(t)
    np.testing.assert_array_equal((mantissa * 2.0**exponent).numpy(), V)


def test_results_go_where_they_are_wanted() -> None:
    t, room = ad.tensor(V), np.zeros(3)
    assert np.sin(t, out=room) is room
    np.testing.assert_array_equal(room, np.sin(V))
    place = ad.zeros(3, dtype=ad.float64)
    assert np.sin(V, out=place) is place
    np.testing.assert_array_equal(place.numpy(), np.sin(V))
    total = np.zeros(())
    np.sum(t, out=total)
    assert total == pytest.approx(V.sum())
    assert_raises(TypeError, "cannot hold a result that requires grad", lambda: np.sin(t.requires_grad_(), out=room))


@pytest.mark.parametrize("symbol", ["add", "sub", "mul", "truediv", "pow", "floordiv", "mod", "lt", "ge", "eq"])
def test_arrays_on_the_left_of_operators(symbol: str) -> None:
    f = getattr(operator, symbol)
    t = ad.tensor(B, requires_grad=True)
    for left in (A, V, np.float64(1.5), A.astype(np.float32)):
        out = f(left, t)
        assert isinstance(out, ad.Tensor)
        np.testing.assert_allclose(out.detach().numpy(), f(left, B), rtol=1e-6)


def test_an_array_takes_a_tensor_in_place_or_refuses() -> None:
    array = A.copy()
    array += ad.tensor(B)
    assert type(array) is np.ndarray
    np.testing.assert_array_equal(array, A + B)
    with pytest.raises(TypeError, match="cannot hold"):
        array += ad.tensor(B, requires_grad=True)


def test_types_of_others_are_left_to_them() -> None:
    class Other:
        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> str:
            return "theirs"

        __array_ufunc__ = None

    assert np.concatenate([ad.tensor(V), Other()]) == "theirs"  # type: ignore[list-item]


def test_dtype_is_asked_for() -> None:
    t = ad.tensor([1.0, 2.0], requires_grad=True)
    assert np.add(t, 1.0, dtype=np.float64).dtype is ad.float64  # type: ignore[comparison-overlap]
    assert np.sum(t, dtype=np.float64).dtype is ad.float64
    assert np.mean(ad.tensor([1, 2])).item() == 1.5


def test_compiled_as_eagerly() -> None:
    pytest.importorskip("llvmlite")

    def f(x: Any) -> Any:
        return np.sum(np.tanh(np.concatenate([x, x * 2])) * np.linalg.norm(x))

    x = ad.tensor(V)
    np.testing.assert_allclose(ad.compile(f)(x).numpy(), f(x), rtol=1e-12)


SCIPY = {
    "digamma": (V,), "entr": (V,), "erf": (V,), "erfc": (V,), "erfcx": (V,), "erfinv": (V / 2,), "expit": (A,),
    "gammaln": (V,), "i0": (V,), "i0e": (V,), "i1": (V,), "i1e": (V,), "j0": (V,), "j1": (V,), "k0": (V,), "k1": (V,),
    "k0e": (V,), "k1e": (V,), "log_expit": (A,), "log_ndtr": (V,), "logit": (V / 2,), "ndtr": (V,), "ndtri": (V / 2,),
    "psi": (V,), "xlog1py": (V, A), "xlogy": (V, A), "y0": (V,), "y1": (V,),
}  # fmt: skip


@pytest.mark.parametrize("name", SCIPY)
def test_scipy_special(name: str) -> None:
    special = pytest.importorskip("scipy.special")
    f = getattr(special, name)
    given = [ad.tensor(x, requires_grad=True) for x in SCIPY[name]]
    out = f(*given)
    assert isinstance(out, ad.Tensor)
    np.testing.assert_allclose(out.detach().numpy(), f(*SCIPY[name]), rtol=1e-6)
    out.sum().backward()
    h = 1e-6
    slope = sum(f(*SCIPY[name][:0], SCIPY[name][0] + s * h, *SCIPY[name][1:]).sum() * s for s in (1, -1)) / (2 * h)
    assert given[0].grad.sum().item() == pytest.approx(slope, rel=1e-4)
    assert_raises(TypeError, r"scipy\.special\.\w+ has no differentiable counterpart", lambda: special.airy(given[0]))


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_scipy_incomplete_gamma(name: str) -> None:
    f = getattr(pytest.importorskip("scipy.special"), name)
    np.testing.assert_allclose(f(ad.tensor(V), ad.tensor(V)).numpy(), f(V, V), rtol=1e-6)


def test_every_counterpart_stands_for_a_function_that_there_is() -> None:
    for module, table in TABLES.items():
        place = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft}[module]
        assert not [name for name in table if not hasattr(place, name)]
    ufuncs = {name for name in CALLS if isinstance(getattr(np, name, None), np.ufunc)}
    assert len(ufuncs) > 70


def test_numpy_finds_the_first_truth() -> None:
    assert int(np.argmax(ad.tensor([False, True, True]))) == 1
    assert int(np.argmin(ad.tensor([True, False, False]))) == 1
