"""Where a step cannot be compiled, the error says so in the user's words, and everything is as it was."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from tests.support.checks import raises
from tests.support.scripts import output_of
from tests.support.steps import batches, mlp, training

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.compiler import step_compiler
from adjoint.compiler.ir.graph import TraceError

pytest.importorskip("llvmlite")


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.numpy().put(0, 1),
        lambda x: x.numpy().fill(0.0),
        lambda x: x.numpy().partition(1),
        lambda x: x.numpy().sort(),
        lambda x: np.add(x.numpy(), 1, out=x.numpy()),
    ],
    ids=["put", "fill", "partition", "sort", "out"],
)
def test_reading_a_value_names_the_line(read: Any) -> None:
    x = ad.ones(3)
    told = r"not known while the step is being compiled, at .*test_compile_errors.py:\d+"
    with pytest.raises(RuntimeError, match=told) as info:
        ad.compile(lambda x: read(x))(x)
    assert type(info.value).__name__ == "TraceError"
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_repr_is_that_of_the_call() -> None:
    shown: list[str] = []
    step = ad.compile(lambda x: (shown.append(repr(x * 2)), x)[1])
    for _ in range(2):
        step(ad.ones(3))
    assert shown == ["tensor([2., 2., 2.])"] * 2


def test_a_step_that_raises_leaves_what_it_did_before() -> None:
    def outcome(wrap: Callable[[Any], Any]) -> tuple[Any, ...]:
        ad.manual_seed(0)
        model, calls = mlp(), []
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def broken(x: Any, y: Any) -> None:
            calls.append(len(calls))
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            if len(calls) != 2:
                raise KeyError("mine")
            calls.append("whole")

        step = wrap(broken)
        x, y = batches(1, 8, 12)[0]
        for k in range(4):
            if k == 1:
                step(x, y)
            else:
                raises(KeyError, "mine", lambda: step(x, y))
        state = [s["momentum_buffer"] for s in optimizer.state.values()]
        tensors = [*model.parameters(), *(p.grad for p in model.parameters()), *state]
        assert all(isinstance(t.array, np.ndarray) for t in tensors)
        assert ad.is_grad_enabled()
        assert not ad.core.runtime.mode.nondefault.count
        return calls, [t.detach().numpy().copy() for t in tensors]

    compiled, eager = outcome(ad.compile), outcome(lambda step: step)
    assert compiled[0] == eager[0]
    for a, b in zip(compiled[1], eager[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_shapes_that_do_not_fit_raise_as_they_do_eagerly() -> None:
    a, b = ad.ones(2, 3), ad.ones(4)
    for f in (lambda x, y: x + y, lambda x, y: x @ y, lambda x, y: ad.cat([x, y])):
        messages = []
        for g in (f, ad.compile(f)):
            with pytest.raises(RuntimeError) as info:
                g(a, b)
            messages.append((type(info.value), str(info.value)))
        assert messages[0] == messages[1]


def test_a_step_whose_traces_raise_what_it_does_not_is_soon_left_to_eager_code(monkeypatch: pytest.MonkeyPatch) -> None:
    traces = []

    def trace_step(*_: object) -> None:
        traces.append(1)
        raise LookupError("of the compiler")

    monkeypatch.setattr(step_compiler, "trace_step", trace_step)
    compiled = ad.compile(lambda x: x * 2)
    for call in range(6):
        told = "runs eagerly from now on, after 3 errors: LookupError" if call == 2 else "and ran eagerly: LookupError"
        with pytest.warns(RuntimeWarning, match=told) if call < 3 else nullcontext():
            assert compiled(ad.tensor([float(call)])).tolist() == [call * 2.0]
    assert len(traces) == 3


def test_a_step_that_raises_is_compiled_when_it_no_longer_does() -> None:
    state = {"missing": True}

    def step(x: ad.Tensor) -> ad.Tensor:
        if state["missing"]:
            raise LookupError("of the step")
        return x * 2

    compiled = ad.compile(step)
    for _ in range(5):
        raises(LookupError, "of the step", lambda: compiled(ad.ones(2)))
    state["missing"] = False
    assert compiled(ad.ones(2)).tolist() == [2.0, 2.0]
    assert compiled.compilations == 1


def test_a_target_out_of_range_raises_before_the_parameters_are_written() -> None:
    model = mlp()
    compiled = ad.compile(training(model, optim.SGD(model.parameters(), lr=0.1)))
    x, y = batches(1, 8, 12)[0]
    compiled(x, y)
    before = [p.detach().clone() for p in model.parameters()]
    bad = y.clone()
    bad[3] = 7
    for _ in range(2):
        raises(IndexError, "Target 7 is out of bounds", lambda: compiled(x, bad))
    for p, q in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.numpy())
    compiled(x, y)


def test_an_index_out_of_range_raises_the_same_error() -> None:
    f = lambda x, i: x[i]  # noqa: E731  the same one-liner twice
    compiled = ad.compile(f)
    x, good, bad = ad.ones(3), ad.tensor([0, 2]), ad.tensor([0, 10])
    assert compiled(x, good).tolist() == [1.0, 1.0]
    for g in (f, compiled):
        raises(IndexError, "index 10 is out of bounds", g, x, bad)


def test_an_ndarray_as_argument() -> None:
    raises(TypeError, r"ndarray.*from_numpy", lambda: ad.compile(lambda x: x * 2)(np.ones(3)))


def test_backward_inside_into_a_history_outside() -> None:
    x = ad.ones(3, requires_grad=True) * 2
    raises(RuntimeError, "history lies outside of it", lambda: ad.compile(lambda x: x.sum().backward())(x))
    assert x.grad_fn.name() == "MulBackward0"


def test_a_second_backward_from_outside() -> None:
    w = ad.ones(3, requires_grad=True)

    @ad.compile
    def step(x: Any) -> Any:
        loss = (x * w * w).sum()
        loss.backward()
        return loss

    loss = step(ad.ones(3))
    assert loss.grad_fn.name() == "CompiledBackward"
    raises(RuntimeError, r"a second time.*inside the compiled step 'step'", loss.backward)
    outside = ad.compile(lambda x: (x * w * w).sum())(ad.ones(3))
    outside.backward()
    raises(RuntimeError, "a second time", outside.backward)


def test_a_saved_value_written_by_a_compiled_step_is_noticed() -> None:
    w = ad.ones(3, requires_grad=True)
    outside = (w * w).sum()

    @ad.compile
    def change() -> None:
        with ad.no_grad():
            w.mul_(2.0)

    change()
    raises(RuntimeError, "modified by an inplace operation", outside.backward)


def test_unknown_options() -> None:
    raises(TypeError, "unexpected keyword argument 'spede'", lambda: ad.compile(lambda x: x, spede=3))
    assert ad.compile(mode="max-autotune")(lambda x: x + 1)(ad.zeros(1)).item() == 1.0
    function = lambda x: x  # noqa: E731  identity matters here
    assert ad.compile(function, disable=True) is function


def test_explaining_before_the_first_call() -> None:
    compiled = ad.compile(lambda x: x)
    raises(RuntimeError, "not called yet", compiled.explain)


def test_without_llvmlite_the_step_runs_eagerly_and_says_so() -> None:
    program = (
        "import sys, warnings\nsys.modules['llvmlite'] = None\nimport adjoint as ad\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    f = ad.compile(lambda x: x * 2)\n    g = ad.compile(lambda x: x * 3)\n"
        "assert f(ad.ones(2)).tolist() == [2.0, 2.0] and g(ad.ones(1)).item() == 3.0\n"
        "assert len(caught) == 1 and 'pip install llvmlite' in str(caught[0].message), caught\n"
    )
    output_of(program)
    _ = nn


@pytest.mark.parametrize("decides", [False, True])
def test_an_index_out_of_range_leaves_what_stands_before_it(decides: bool) -> None:
    def seen(wrap: Any) -> list[Any]:
        ad.manual_seed(0)
        state, log = ad.zeros(3), []

        def count(x: Any, i: Any) -> Any:
            state.add_(1.0)
            log.append(len(log))
            if decides and x.sum() > 100:
                return x
            drawn = ad.rand(2)
            chosen = ad.index_select(x, 0, i) * 2
            state.mul_(2.0)
            return chosen, drawn

        run, found = wrap(count), []
        for i in ([0, 2], [0, 7], [1, 1], [9, 0], [2, 2], [0, 7]):
            try:
                found.append([t.tolist() for t in run(ad.ones(3), ad.tensor(i))])
            except IndexError as error:
                found.append([str(error)])
            found.append([state.tolist(), state._version, list(log)])
        return [*found, ad.rand(1).item()]

    assert seen(ad.compile) == seen(lambda step: step)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.t_(), lambda x: x.unsqueeze_(0), lambda x: x.squeeze_(), lambda x: x.transpose_(0, 1),
        lambda x: x.as_strided_((2, 2), (1, 3)),
    ],
)  # fmt: skip
def test_what_was_there_before_keeps_its_shape(change: Any) -> None:
    x, held = ad.arange(12.0).reshape(4, 3), ad.arange(12.0).reshape(4, 3)
    for step, given in ((lambda x: change(x) * 2, x), (lambda x: x + change(held).sum(), x)):
        with pytest.raises(TraceError, match=r"_\(\) changes the shape of a tensor from before the step, at .*: use "):
            ad.compile(step)(given)
    assert x.shape == held.shape == (4, 3)
    assert ad.compile(lambda x: change(x.clone()) * 2)(x).equal(change(x.clone()) * 2)
