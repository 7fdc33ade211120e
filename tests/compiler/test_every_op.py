"""Every op, through the compiler: the traced graph on NumPy, and the native program, give what the eager call gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.samples import SAMPLES, Sample

import adjoint as ad
from adjoint.compiler.compile import CompiledFunction
from adjoint.compiler.ir.interpreter import evaluate
from adjoint.compiler.trace.tracer import Tracer

pytest.importorskip("llvmlite")
FLOATS = {"float32": np.float32, "float64": np.float64}


@pytest.fixture(params=FLOATS)
def floating(request: pytest.FixtureRequest) -> Any:
    return FLOATS[request.param]


def _given(sample: Sample, floating: Any) -> tuple[list[Any], list[int]]:
    """The sample's inputs, arrays as tensors, and the places of those that are differentiated."""
    inputs = [ad.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in sample.arrays(floating)]
    return inputs, [i for i in sample.differentiable if isinstance(inputs[i], ad.Tensor)]


def _call(sample: Sample, settings: dict[str, Any], inputs: list[Any]) -> Any:
    return sample.function(*inputs, **settings)


def _with_gradients(sample: Sample, settings: dict[str, Any], inputs: list[Any], places: list[int]) -> list[Any]:
    """The op's value, and the gradients of its weighted sum."""
    leaves = [inputs[i].detach().requires_grad_() for i in places]
    for i, leaf in zip(places, leaves, strict=True):
        inputs[i] = leaf
    out = _call(sample, settings, inputs)
    if not places or not out.requires_grad:
        return [out]
    weights = ad.tensor(np.cos(np.arange(out.numel())).reshape(out.shape), dtype=out.dtype)
    return [out, *ad.autograd.grad((out * weights).sum(), leaves, allow_unused=True, materialize_grads=True)]


def _tensors(inputs: list[Any]) -> Iterator[tuple[int, Any]]:
    return ((i, x) for i, x in enumerate(inputs) if isinstance(x, ad.Tensor))


def _close(ours: Any, expected: Any, floating: Any) -> None:
    ours, expected = (x.detach().numpy() for x in (ours, expected))
    assert ours.shape == expected.shape
    assert ours.dtype == expected.dtype
    if expected.dtype.kind == "f":
        rough = 3e-6 if floating is np.float32 else 1e-12
        largest = float(np.abs(expected).max(initial=0))
        np.testing.assert_allclose(ours, expected, rtol=10 * rough, atol=rough * max(1.0, largest))
    else:
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.sweep(4)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_traced_equals_eager(sample: Sample, floating: Any) -> None:
    inputs, _ = _given(sample, floating)
    expected = _call(sample, sample.settings(), inputs)
    tracer = Tracer("sample")
    symbols = {}
    for i, x in _tensors(inputs):
        tracer.bind_argument(x, i, str(i))
        symbols[tracer.graph.inputs[-1]] = tracer.state[-1][1]
    try:
        out = tracer.trace(_call, (sample, sample.settings(), inputs), {})
    finally:
        tracer.restore()
    tracer.graph.outputs = [out.array]
    tracer.graph.verify()
    _close(ad.from_numpy(evaluate(tracer.graph, symbols)[0]), expected, floating)


# A sparse gradient is not compiled: tests/functions/sparse.
DENSE = [sample for sample in SAMPLES if sample.op.name != "lookup_sparse"]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("sample", DENSE, ids=lambda s: s.name)
def test_compiled_equals_eager(sample: Sample, floating: Any) -> None:
    inputs, places = _given(sample, floating)
    expected = _with_gradients(sample, sample.settings(), list(inputs), places)
    compiled = CompiledFunction(lambda *given: _with_gradients(sample, settings, list(given), places))
    settings = sample.settings()
    for _ in range(2):
        got = compiled(*inputs)
        for ours, theirs in zip(got, expected, strict=True):
            _close(ours, theirs, floating)
        if "generator" in sample.params:
            settings["generator"].manual_seed(sample.params["generator"])
    assert compiled.compilations == 1
