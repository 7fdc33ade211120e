"""While a step is traced, tensors lie in memory as they do eagerly: which results are views, which are contiguous."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.samples import SAMPLES, Sample

import adjoint as ad
from adjoint.compiler.ir.graph import TraceError
from adjoint.compiler.trace.symbolic_strides import strides_unless_contiguous
from adjoint.compiler.trace.tracer import Tracer
from adjoint.core.runtime import pytree
from adjoint.core.tensor.tensor import wrap

UNSEEN = {"replace_content", "windows", "windows-2d"}  # never called by users: what follows them is of one order


def gapped(x: Any) -> Any:
    room = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    room[..., ::2] = x
    return room[..., ::2]


ORDERS: dict[str, Callable[[Any], Any]] = {
    "columns first": np.asfortranarray,
    "last two swapped": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "first one innermost": lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0),
    "with gaps": gapped,
}


def strides_of(sample: Sample, order: Callable[[Any], Any], traced: bool) -> Any:
    """Those of the result, None if row-major; where a dimension has one element, any will do."""
    arrays = [order(x) if isinstance(x, np.ndarray) and x.ndim > 1 else x for x in sample.inputs]
    tensors = [wrap(x) if isinstance(x, np.ndarray) else x for x in arrays]
    tracer = Tracer("step")
    try:
        if not traced:
            out = sample.function(*tensors, **sample.settings())
            return _said(out.shape, strides_unless_contiguous(out.array))
        return tracer.trace(
            lambda: _said(
                (out := sample.function(*tensors, **sample.settings())).shape, tracer.strides.of(tracer.adopt(out))
            ),
            (),
            {},
        )
    finally:
        tracer.restore(failed=True)


def _said(shape: Any, strides: Any) -> Any:
    return strides and tuple(s if n > 1 else None for n, s in zip(shape, strides, strict=True))


@pytest.mark.sweep(4)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "sample", [s for s in SAMPLES if s.name not in UNSEEN and s.op.family != "random"], ids=lambda s: s.name
)
def test_the_result_of_every_op_lies_as_it_does_eagerly(sample: Sample, order: str) -> None:
    assert strides_of(sample, ORDERS[order], True) == strides_of(sample, ORDERS[order], False)


def facts_of(x: ad.Tensor) -> tuple[Any, ...]:
    y = x.mT * 2
    return (
        x.stride(), x.is_contiguous(), x.mT.stride(), x.mT.is_contiguous(), y.stride(), y.is_contiguous(),
        y.contiguous().stride(), x[:, 1:].is_contiguous(), x[1:].is_contiguous(), x.expand(2, 3, 4).stride(),
        x.mT.flatten().is_contiguous(), x.permute(1, 0).reshape(2, 6).stride(), x.sum(0, keepdim=True).stride(1),
    )  # fmt: skip


@pytest.mark.parametrize("turned", [False, True])
def test_a_step_may_ask(turned: bool) -> None:
    told: list[Any] = []
    x = ad.arange(12.0).reshape(4, 3).mT if turned else ad.arange(12.0).reshape(3, 4)
    step = ad.compile(lambda x: (told.append(facts_of(x)), x + 1)[1])
    step(x)
    assert told[0] == facts_of(x)


def test_view_complains_where_it_does_eagerly() -> None:
    step = ad.compile(lambda x: x.mT.view(6))
    with pytest.raises(RuntimeError, match="view size is not compatible") as raised:
        step(ad.zeros(2, 3))
    assert not isinstance(raised.value, TraceError)


def flat(x: ad.Tensor) -> ad.Tensor:
    v = x.flatten()
    v += 1
    return v * 2


def test_an_argument_that_lies_otherwise_has_a_program_of_its_own() -> None:
    step = ad.compile(flat)
    for make in (lambda: ad.zeros(2, 3), lambda: ad.zeros(3, 2).mT, lambda: ad.zeros(2, 6)[:, ::2]):
        for _ in range(2):
            x, y = make(), make()
            assert step(x).tolist() == flat(y).tolist()
            assert x.tolist() == y.tolist()
    assert step.compilations == 3
    assert "contiguous" in str(step.recompilations[1])


def test_order_does_not_matter_where_nothing_depends_on_it() -> None:
    step = ad.compile(lambda x: (x * 2).sum())
    for x in (ad.ones(2, 3), ad.ones(3, 2).mT, ad.ones(2, 6)[:, ::2]):
        assert step(x).item() == 12
    assert step.compilations == 1


@pytest.mark.parametrize("turned_first", [False, True])
def test_state_that_lies_otherwise_is_traced_again(turned_first: bool) -> None:
    def program() -> Callable[[], Any]:
        state = ad.zeros(2, 3)
        turned = ad.ones(3, 2).mT
        if turned_first:
            state.data = turned.clone().mT.contiguous().mT

        def step() -> ad.Tensor:
            v = state.flatten()
            state.add_(1)
            return v * 1

        def call(compiled: Callable[[], ad.Tensor]) -> list[Any]:
            found = [compiled().tolist()]
            state.data = ad.zeros(2, 3) if turned_first else turned
            return [*found, compiled().tolist(), compiled().tolist(), state.tolist()]

        return lambda compiled=False: call(ad.compile(step) if compiled else step)  # type: ignore[misc]

    assert program()(True) == program()(False)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "make",
    [
        lambda x: (x * 2).T,
        lambda x: (x + 1).reshape(2, 3, 4).permute(2, 0, 1),
        lambda x: ((x * 5).movedim(0, 1), x * 5),
        lambda x: [(x * 3).T[1:], (x * 3).T.reshape(-1)],
        lambda x: ((x * 2).T, (x * 2).sum()),
        lambda x: (x * 2).as_strided((4, 6), (1, 4)),
        lambda x: (x * 2).unsqueeze(0).T.expand(4, 6, 1) if x.shape[1] == 6 else (x * 2).T.unsqueeze(1),
    ],
)
def test_results_that_are_views_of_what_the_step_made_lie_as_in_eager(make: Any) -> None:
    x = ad.arange(24.0).reshape(6, 4)
    step = ad.compile(make)
    for _ in range(2):
        for got, expected in zip(pytree.flatten(step(x))[0], pytree.flatten(make(x))[0], strict=True):
            assert np.array_equal(got.numpy(), expected.numpy())
            if expected.numpy().flags.c_contiguous or expected.numpy().T.flags.c_contiguous:
                assert got.stride() == expected.stride()
            got.mul_(-1)  # it is nobody else's


def test_results_with_a_history_and_turned_ones_side_by_side() -> None:
    weight = ad.ones(4, 6, requires_grad=True)

    def step(x: Any) -> Any:
        y = x @ weight
        return y.T, y.detach().T * 2, (x * 3).T

    got, expected = ad.compile(step)(ad.arange(12.0).reshape(3, 4)), step(ad.arange(12.0).reshape(3, 4))
    for a, b in zip(got, expected, strict=True):
        assert np.array_equal(a.detach().numpy(), b.detach().numpy())
    assert got[2].stride() == expected[2].stride()
    got[0].sum().backward()
    assert weight.grad[0, 0] == 12
