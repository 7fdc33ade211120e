"""What op calls promise is told once for calls that are alike, and for no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import adjoint as ad
from adjoint.compiler.ir.graph import TraceError, op_of
from adjoint.compiler.trace import call_specs, tracer
from adjoint.core.op.families import primitive, unary
from adjoint.core.op.spec import Spec
from adjoint.ops.elementwise.arithmetic import div

F32, F64, I32, U8 = ad.float32, ad.float64, ad.int32, ad.uint8

PAIRS: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = [
    ("type", lambda x: x + 1, lambda x: x.double() + 1),
    ("shape", lambda x: x * x, lambda x: x * x[:1]),
    ("number's type", lambda x: x.to(I32) + 1, lambda x: x.to(I32) + 1.0),
    ("truth and number", lambda x: x.to(U8) * True, lambda x: x.to(U8) * 1),
    ("NumPy's scalars", lambda x: x.to(I32) * np.int64(2), lambda x: x.to(I32) * 2),
    ("sign of zero", lambda x: x / 0.0, lambda x: x / -0.0),
    ("axis", lambda x: x.sum(0), lambda x: x.sum(1)),
    ("kept axes", lambda x: x.sum(0, keepdim=True), lambda x: x.sum(0)),
    ("slice", lambda x: x[:2], lambda x: x[:3]),
    ("order", lambda x: x.permute(1, 0), lambda x: x.permute(0, 1)),
    ("target", lambda x: x.to(F64), lambda x: x.to(I32)),
    ("operands' order", lambda x: x @ x.t(), lambda x: x.t() @ x),
    ("what stands nowhere", lambda x: x.clamp(0.1), lambda x: x.clamp(None, 0.1)),
]


@pytest.mark.parametrize(("first", "second"), [pair[1:] for pair in PAIRS], ids=[pair[0] for pair in PAIRS])
def test_calls_that_differ_promise_what_each_gives(first: Any, second: Any) -> None:
    def step(x: Any) -> Any:
        return [f(x) for f in (first, second, first, second)]

    x = ad.tensor(np.linspace(-2, 3, 12).reshape(4, 3).astype(np.float32))
    for found, wanted in zip(ad.compile(step)(x), step(x), strict=True):
        assert found.dtype is wanted.dtype
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)


def count_promises(step: Callable[..., Any], *arguments: Any) -> int:
    """How often a trace asks what a call gives."""
    asked = []
    promise = tracer.promise_spec
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracer, "promise_spec", lambda *given: asked.append(given[0]) or promise(*given))
        ad.compile(step)(*arguments)
    return len(asked)


def test_turns_of_a_loop_ask_once() -> None:
    def take_steps(count: int) -> Callable[[Any], Any]:
        def step(x: Any) -> Any:
            for t in range(count):
                x = x + 0.5 * (x @ x.t()).tanh().sum(1, keepdim=True) + t
            return x

        return step

    few, many = (count_promises(take_steps(count), ad.ones(3, 3)) for count in (3, 30))
    assert many <= few + 30  # each number that is added is another one


def test_the_default_type_counts() -> None:
    signatures = []
    for kind in (F32, F64):
        ad.set_default_dtype(kind)
        signatures.append(call_specs.call_signature(op_of(div), (2, 3), (2, 3), {}))
    ad.set_default_dtype(F32)
    assert signatures[0] != signatures[1]


def test_a_users_op_is_asked_each_time() -> None:
    calls = []

    def promise(x: Any) -> Spec:
        calls.append(x)
        return Spec(x.shape, x.dtype)

    @primitive(spec=promise)
    def double(x: Any) -> Any:
        """2 x."""
        return x * 2

    result = ad.compile(lambda x: double(double(double(x))))(ad.ones(2))
    assert result.tolist() == [8.0, 8.0]
    assert len(calls) >= 3


def test_what_cannot_be_is_refused_each_time() -> None:
    def step(x: Any) -> Any:
        failed = []
        for _ in range(2):
            with pytest.raises(RuntimeError) as caught:
                x @ x
            failed.append(str(caught.value))
        assert failed[0] == failed[1]
        return x + 1

    x = ad.ones(2, 3)
    try:
        assert ad.compile(step)(x).tolist() == step(x).tolist()
    except TraceError:
        pytest.fail("an error that the step catches is no reason to refuse")


def test_a_users_gradient_rule_is_followed() -> None:
    scale = [2.0]

    @unary(scalar="neg", dx=lambda g: g * scale[0])
    def turn(x: Any) -> Any:
        """-x."""
        return np.negative(x)

    x = ad.ones(3, requires_grad=True)

    def step() -> Any:
        x.grad = None
        turn(x).sum().backward()
        return x.grad

    compiled = ad.compile(step)
    for scale[0] in (2.0, 5.0):
        assert compiled().tolist() == [scale[0]] * 3
