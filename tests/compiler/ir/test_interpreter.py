"""Random programs: eager, the traced graph after each pass on the reference executor, and native code all agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.support.programs import Program, programs

import adjoint as ad
from adjoint.compiler.ir.graph import Argument, Graph, Value
from adjoint.compiler.ir.interpreter import evaluate
from adjoint.compiler.passes.materialize import materialize_views
from adjoint.compiler.passes.simplify import rewrite
from adjoint.compiler.trace.tracer import Tracer

pytest.importorskip("llvmlite")


def traced(program: Program) -> Graph:
    """The graph of a program."""
    tracer = Tracer("program")
    tensors = [ad.from_numpy(a.copy()) for a in program.arguments]
    for i, tensor in enumerate(tensors):
        tracer.bind_argument(tensor, i, str(i))
    try:
        outputs = tracer.trace(program.run, tuple(tensors), {})
        tracer.graph.outputs = [out.array for out in outputs]
    finally:
        tracer.restore()
    return tracer.graph


def on_numpy(graph: Graph, program: Program) -> list[Any]:
    """The graph's outputs, equation by equation."""
    known: dict[Value, Any] = {v: program.arguments[v.source.number] for v in graph.inputs_of_kind(Argument)}
    return evaluate(graph, known)


def same(ours: list[Any], expected: list[Any], rough: float) -> None:
    """Assert equal shapes, types and elements; `rough` as a part of the largest element allowed."""
    assert len(ours) == len(expected)
    for x, y in zip(ours, expected, strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        if rough:
            scale = max(1.0, float(np.abs(y).max(initial=0)))
            np.testing.assert_allclose(x, y, rtol=0, atol=rough * scale)
        else:
            np.testing.assert_array_equal(x, y)


def check(program: Program, rough: float) -> None:
    """Hold every stage of the compiler against the eager run."""
    try:
        _check(program, rough)
    except Exception as error:
        error.add_note(str(program))
        raise


def _check(program: Program, rough: float) -> None:
    tensors = [ad.from_numpy(a.copy()) for a in program.arguments]
    expected = [out.numpy() for out in program.run(*tensors)]
    graph = traced(program)
    for change in (lambda g: g, rewrite, materialize_views):
        graph = change(graph)
        graph.verify()
        same(on_numpy(graph, program), expected, rough)
    compiled = ad.compile(program.run)
    for _ in range(2):
        same([out.numpy() for out in compiled(*tensors)], expected, rough)
    for tensor, before in zip(tensors, program.arguments, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), before, "an argument was written to")


@settings(max_examples=250)
@given(programs(exact=True))
def test_programs_of_small_integers_are_exact(program: Program) -> None:
    check(program, 0.0)


@settings(max_examples=250)
@given(programs(exact=False))
def test_smooth_programs_agree_to_rounding(program: Program) -> None:
    check(program, 2e-5)


@pytest.mark.nightly
@settings(max_examples=20_000)
@given(programs(exact=True, most=24, even=True))
def test_many_programs_of_small_integers_are_exact(program: Program) -> None:
    check(program, 0.0)


@pytest.mark.nightly
@settings(max_examples=10_000)
@given(programs(exact=False, most=16, even=True))
def test_many_smooth_programs_agree_to_rounding(program: Program) -> None:
    check(program, 1e-4)


@settings(max_examples=100)
@given(programs(exact=False, most=8))
def test_gradients_of_smooth_programs_agree_to_rounding(program: Program) -> None:
    def gradients(*tensors: Any) -> list[Any]:
        leaves = [t.detach().requires_grad_() if t.is_floating_point() else t for t in tensors]
        outputs = [out for out in program.run(*leaves) if out.requires_grad]
        if not outputs:
            return [leaves[0] * 1]
        total = sum((out * 0.5 + 1).square().mean().to(ad.float64) for out in outputs if out.numel())
        if not isinstance(total, ad.Tensor):
            return [leaves[0] * 1]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        return list(ad.autograd.grad(total, wanted, allow_unused=True, materialize_grads=True))

    tensors = [ad.from_numpy(a) for a in program.arguments]
    expected = [g.detach().numpy() for g in gradients(*tensors)]
    try:
        same([g.detach().numpy() for g in ad.compile(gradients)(*tensors)], expected, 2e-5)
    except Exception as error:
        error.add_note(str(program))
        raise


def test_numbers_enter_in_the_type_in_which_the_op_computes() -> None:
    tracer = Tracer("numbers")
    x = ad.tensor([1, 2, 3], dtype=ad.int32)
    tracer.bind_argument(x, 0, "x")
    try:
        out = tracer.trace(lambda x: (ad.where(x > 1, x, 7), x * 2), (x,), {})
    finally:
        tracer.restore()
    tracer.graph.outputs = [o.array for o in out]
    chosen, doubled = evaluate(tracer.graph, {tracer.graph.inputs[0]: x.numpy()})
    assert (chosen.dtype, chosen.tolist()) == (np.dtype(np.int32), [7, 2, 3])
    assert (doubled.dtype, doubled.tolist()) == (np.dtype(np.int32), [2, 4, 6])
