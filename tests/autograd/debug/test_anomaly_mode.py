"""The first NaN is found at the op that makes it; in backward, the node and its forward call are named."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.checks import collector_off, raises
from tests.support.threads import in_another_thread

import adjoint as ad
from adjoint.autograd import Function, anomaly_mode, detect_anomaly, set_detect_anomaly
from adjoint.core.runtime.mode import nondefault

pytestmark = pytest.mark.claim("U9")


@pytest.fixture(autouse=True)
def _modes_are_put_back() -> Iterator[None]:
    before = nondefault.count
    yield
    assert nondefault.count == before
    assert not ad.is_anomaly_enabled()


def detecting(check_nan: bool = True) -> Any:
    """Anomaly detection without the warning that it is on."""
    return set_detect_anomaly(True, check_nan)


class NanBackward(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any, place: int) -> Any:
        ctx.place = place
        return x + y

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        bad = grads[0] * 0
        bad = bad / bad
        return (bad, grads[0], None) if ctx.place == 0 else (grads[0], bad, None)


def test_the_first_nan_forward() -> None:
    x = ad.tensor([-1.0, 0.5, 4.0], requires_grad=True)
    with detecting():
        y = x * 2
        with pytest.raises(RuntimeError) as error:
            ad.log(y)
    message = str(error.value)
    assert message.startswith(f"log made the first NaN, at {__file__}:")
    assert "1 in a result of shape [3]" in message
    assert "x of shape [3], from -2 to 8" in message


def test_the_infinity_before_it() -> None:
    x = ad.tensor([0.0, 1.0])
    with detecting():
        y = ad.log(x)
        with pytest.raises(RuntimeError) as error:
            y * ad.tensor([0.0, 1.0])
    assert "mul made the first NaN" in str(error.value)
    assert "x of shape [2], from 0 to 0, 1 infinite" in str(error.value)
    assert f"The first infinity was made by log, at {__file__}:" in str(error.value)
    assert "of x of shape [2], from 0 to 1." in str(error.value)


def test_a_nan_that_was_given_is_nobodys_fault() -> None:
    with detecting():
        x = ad.tensor([1.0, float("nan")])
        assert ad.isnan(x * 2 + 1).tolist() == [False, True]
        assert ad.isnan(ad.ones(1) * float("nan")).item()
        assert ad.full((1,), float("nan")).isnan().item()
        assert ad.where(ad.tensor([True]), ad.tensor([float("nan")]), 0.0).isnan().item()


def test_writes_in_place_and_functions_are_seen_too() -> None:
    class Made(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return ad.from_numpy(x.numpy() * float("nan"))

    with detecting():
        x = ad.zeros(2)
        raises(RuntimeError, "div made the first NaN", lambda: x.div_(0))
        raises(RuntimeError, "Made made the first NaN", lambda: Made.apply(ad.ones(2)))


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_nan_in_backward(place: int, create_graph: bool) -> None:
    x = ad.ones(2, requires_grad=True)
    with detecting():
        out = NanBackward.apply(x, x, place)
    said = f"Function 'NanBackwardBackward' returned nan values in its {place}th output."
    with (
        detecting(),
        pytest.warns(UserWarning, match="Error detected in NanBackwardBackward") as told,
        pytest.raises(RuntimeError, match=said) as error,
    ):
        out.sum().backward(create_graph=create_graph)
    assert "out = NanBackward.apply(x, x, place)" in str(told[0].message)
    assert "adjoint/autograd" not in str(told[0].message)  # the library's own frames are left out
    assert error.value.__notes__[0].startswith(f"in the backward of NanBackwardBackward, recorded at {__file__}:")


def test_torch_names_the_same_output() -> None:
    torch = pytest.importorskip("torch")
    told = []
    for lib in (ad, torch):
        y = lib.zeros(2, requires_grad=True)
        quotient = (y * y).sum() ** 0.5
        with (
            lib.autograd.set_detect_anomaly(True),
            pytest.warns(UserWarning, match="Error detected in"),
            pytest.raises(RuntimeError) as error,
        ):
            quotient.backward()
        told.append(str(error.value))
    assert told[0] == told[1]


def test_without_the_forward_pass_the_line_is_known_all_the_same() -> None:
    x = ad.ones(2, requires_grad=True)
    out = NanBackward.apply(x, x, 0)
    with (
        detecting(),
        pytest.warns(UserWarning, match="No forward pass information") as told,
        pytest.raises(RuntimeError, match="0th output"),
    ):
        out.sum().backward()
    assert f"It was recorded at {__file__}:" in str(told[0].message)


def test_check_nan_off() -> None:
    x = ad.zeros(2, requires_grad=True)
    with detecting(check_nan=False):
        assert not ad.is_anomaly_check_nan_enabled()
        (x / x).sum().backward()
        with detecting():
            assert ad.is_anomaly_check_nan_enabled()
            raises(RuntimeError, "div made the first NaN", lambda: x / x)
        (x / x).sum().backward()
    assert x.grad.isnan().all()


def test_other_errors_are_told_with_the_forward_call() -> None:
    a = ad.randn(5, requires_grad=True)
    d = a + 1
    e = d**2
    d += 1
    with (
        detecting(),
        pytest.warns(UserWarning, match="Error detected in PowBackward0"),
        pytest.raises(RuntimeError, match="modified by an inplace operation"),
    ):
        e.sum().backward()


def test_where_warnings_are_errors_the_error_itself_arrives(capsys: pytest.CaptureFixture[str]) -> None:
    x = ad.ones(2, requires_grad=True)
    out = NanBackward.apply(x, x, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with detecting(), pytest.raises(RuntimeError, match="returned nan values"):
            out.sum().backward()
    assert "Error detected in NanBackwardBackward" in capsys.readouterr().err


def test_a_node_made_in_backward_names_the_one_that_made_it() -> None:
    class Outer(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            (x,) = ctx.saved_tensors
            return NanBackward.apply(grads[0] * x, x, 0)

    x = ad.ones(2, requires_grad=True)
    with detecting():
        out = Outer.apply(x).sum()
        g: Any = ad.autograd.grad(out, x, create_graph=True)[0]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            raises(RuntimeError, "returned nan values", g.sum().backward)
    assert "Error detected in NanBackwardBackward" in str(told[0].message)
    assert "part of the backward of OuterBackward" in str(told[1].message)
    assert "Outer.apply(x)" in str(told[1].message)


def test_what_is_remembered_forms_no_cycle() -> None:

    x = ad.ones(2, requires_grad=True)
    with collector_off():
        with detecting():
            y = x.exp()
            ad.autograd.grad(y.sum(), x, create_graph=True)
        gone = weakref.ref(y.grad_fn)
        del y
        assert gone() is None


def test_switches() -> None:
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        block = detect_anomaly()
    with block:
        assert ad.is_anomaly_enabled()
        with set_detect_anomaly(False):
            assert not ad.is_anomaly_enabled()
        assert ad.is_anomaly_enabled()
    set_detect_anomaly(True, check_nan=False)
    assert (ad.is_anomaly_enabled(), ad.is_anomaly_check_nan_enabled()) == (True, False)
    set_detect_anomaly(False)
    assert (ad.is_anomaly_enabled(), ad.is_anomaly_check_nan_enabled()) == (False, True)
    assert ad.autograd.anomaly_mode is anomaly_mode


@pytest.mark.needs_threads
def test_per_thread() -> None:
    seen: list[bool] = []
    with detecting():
        in_another_thread(lambda: seen.append(ad.is_anomaly_enabled()))
    assert seen == [False]


def test_gradients_stay_the_same() -> None:
    x = ad.randn(4, 3, requires_grad=True)

    def loss() -> Any:
        parts = [x[i] * x[i] for i in range(4)]
        return (ad.cat(parts).exp() / 3 + ad.stack(parts).max()).mean()

    expected: Any = ad.autograd.grad(loss(), x)[0]
    with detecting():
        found: Any = ad.autograd.grad(loss(), x)[0]
    assert ad.allclose(found, expected)


def test_a_step_that_is_traced_is_not_looked_at() -> None:
    pytest.importorskip("llvmlite")

    @ad.compile
    def step(x: Any) -> Any:
        y = x * x
        y.sum().backward()
        return y

    x = ad.ones(2, requires_grad=True)
    with detecting():
        assert step(x).tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [2.0, 2.0]
