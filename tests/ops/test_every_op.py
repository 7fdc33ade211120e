"""What holds for every op: value, spec, first and second gradient, types, and agreement with its composite form."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.support.samples import COMPLEX, SAMPLES, Sample, declared_ops, draw

from adjoint import as_tensor, enable_grad
from adjoint.autograd import grad
from adjoint.core.op.spec import Spec

STEP = 1e-5
DTYPES = [np.float32, np.float64]
SMOOTH = [s for s in SAMPLES if s.differentiable]
every = pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
smooth = pytest.mark.parametrize("sample", SMOOTH, ids=lambda s: s.name)
in_both_types = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])

FOLLOWING = ("standard_gamma", "dirichlet")  # numbers that follow their quantiles: special/test_implicit_reparam.py


BETWEEN_RANKS = {"collective", "boundary"}  # of several processes: tests of distributed
# whose gradient is that of their results, not of what they save: compiler/trace/sizes
RECORDS = ("sweep_record", "sweep_gradient")
CHECKS = {"check"}  # of a compiled step, which raise the errors of the ops that they stand for: tests of those


def test_every_op_has_a_sample() -> None:
    sampled = {id(s.op) for s in SAMPLES + COMPLEX}
    ops = declared_ops().items()
    without = BETWEEN_RANKS | CHECKS
    missing = [
        name
        for identity, (name, op) in ops
        if identity not in sampled and op.family not in without and op.name not in RECORDS
    ]
    assert not missing, f"add samples for {missing} to tests/support/samples.py"


def test_every_rule_has_a_sample() -> None:
    covered = {(id(s.op), min(i, len(s.op.rules) - 1)) for s in SMOOTH + COMPLEX for i in s.differentiable}
    missing = [
        (name, op.inputs[i])
        for identity, (name, op) in declared_ops().items()
        for i, rule in enumerate(op.rules)
        if rule is not None and (identity, i) not in covered and op.name not in (*FOLLOWING, *RECORDS)
        if op.family not in BETWEEN_RANKS
    ]
    assert not missing


def test_sample_names_differ() -> None:
    names = Counter((s.name, s.op.evaluate.__module__) for s in SAMPLES)
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.sweep(2)
@every
@in_both_types
def test_value(sample: Sample, dtype: Any) -> None:
    arrays = sample.arrays(dtype)
    out = _called(sample, _tensors(arrays))
    expected = np.asarray(sample.op.evaluate(*arrays, **sample.settings()))
    assert out.array.dtype == expected.dtype
    np.testing.assert_array_equal(out.array, expected)
    assert type(out.array) is np.ndarray


@pytest.mark.sweep(4)
@every
@in_both_types
def test_inputs_are_not_written(sample: Sample, dtype: Any) -> None:
    arrays = sample.arrays(dtype)
    for array in arrays:
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    before = [np.copy(a) for a in arrays if isinstance(a, np.ndarray)]
    _called(sample, _tensors(arrays))
    for array, kept in zip((a for a in arrays if isinstance(a, np.ndarray)), before, strict=True):
        np.testing.assert_array_equal(array, kept)
        array.flags.writeable = True


@pytest.mark.sweep(4)
@pytest.mark.parametrize("sample", [s for s in SMOOTH if "dtype" not in s.params], ids=lambda s: s.name)
@in_both_types
def test_type_is_kept(sample: Sample, dtype: Any) -> None:
    """A floating op computes in the type of its operands, whatever its rules multiply by."""
    inputs = _leaves(sample, dtype)
    out = _called(sample, inputs)
    assert out.array.dtype == dtype
    for g in _gradients(sample, inputs, out):
        assert g.array.dtype == dtype


@pytest.mark.sweep(4)
@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.op.composite is None], ids=lambda s: s.name)
@in_both_types
def test_spec(sample: Sample, dtype: Any) -> None:
    operands = sample.arrays(dtype)
    specs = [Spec((), _type_beside(operands)) if isinstance(x, (int, float)) else _spec(x) for x in operands]
    value = _called(sample, _tensors(sample.arrays(dtype))).array
    assert sample.op.spec(*specs, **sample.settings()) == Spec(value.shape, value.dtype)


@pytest.mark.sweep(3)
@smooth
def test_first_gradient(sample: Sample) -> None:
    inputs = _leaves(sample, np.float64)
    out = _called(sample, inputs)
    weight = draw(sample.name + "-weight", out.array.shape)
    gradients = _gradients(sample, inputs, out)
    assert [g.array.shape for g in gradients] == [np.shape(sample.inputs[i]) for i in sample.differentiable]
    for i, g in zip(sample.differentiable, gradients, strict=True):
        for direction in _directions(sample, i):

            def projected(t: float, i: int = i, direction: Any = direction) -> float:
                moved = list(sample.inputs)
                moved[i] = moved[i] + t * direction
                return float(np.sum(_called(sample, _tensors(tuple(moved))).array * weight))

            slope = (projected(STEP) - projected(-STEP)) / (2 * STEP)
            _agree(np.sum(g.array * direction), slope, sample.tolerance)


@pytest.mark.sweep(3)
@smooth
def test_second_gradient(sample: Sample) -> None:
    inputs = _leaves(sample, np.float64)
    second = _second(sample, inputs)
    for i, g in zip(sample.differentiable, second, strict=True):
        for direction in _directions(sample, i):

            def projected(t: float, i: int = i, direction: Any = direction) -> float:
                moved = list(_leaves(sample, np.float64))
                moved[i] = as_tensor(sample.inputs[i] + t * direction).requires_grad_()
                first = _gradients(sample, tuple(moved), _called(sample, tuple(moved)))
                return float(sum(np.sum(f.array * w) for f, w in zip(first, _projection(sample), strict=True)))

            slope = (projected(STEP) - projected(-STEP)) / (2 * STEP)
            _agree(np.sum(g.array * direction), slope, 10 * sample.tolerance)


@pytest.mark.sweep(3)
@smooth
def test_gradient_of_float32(sample: Sample) -> None:
    narrow, wide = (
        _gradients(sample, inputs, _called(sample, inputs))
        for inputs in (_leaves(sample, np.float32), _leaves(sample, np.float64))
    )
    for g, exact in zip(narrow, wide, strict=True):
        np.testing.assert_allclose(g.array, exact.array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.op.composite is not None], ids=lambda s: s.name)
@in_both_types
def test_composite_agrees(sample: Sample, dtype: Any) -> None:
    inputs, twins = _leaves(sample, dtype), _leaves(sample, dtype)
    out = _called(sample, inputs)
    composite: Any = sample.op.composite
    composed = composite(*twins, **sample.settings())
    close = {"rtol": 1e-5, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-13}
    assert composed.array.dtype == out.array.dtype
    np.testing.assert_allclose(composed.array, out.array, **close)
    if not sample.differentiable:
        return
    for g, h in zip(_gradients(sample, inputs, out), _gradients(sample, twins, composed), strict=True):
        np.testing.assert_allclose(g.array, h.array, **close)


def _tensors(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(as_tensor(a) if isinstance(a, np.ndarray) else a for a in arrays)


def _leaves(sample: Sample, dtype: Any) -> tuple[Any, ...]:
    tensors = _tensors(sample.arrays(dtype))
    for i in sample.differentiable:
        tensors[i].requires_grad_()
    return tensors


def _called(sample: Sample, inputs: tuple[Any, ...]) -> Any:
    return sample.function(*inputs, **sample.settings())


def _spec(x: Any) -> Any:
    return None if x is None else Spec(x.shape, x.dtype)


def _type_beside(operands: tuple[Any, ...]) -> Any:
    """A number takes the type of the arrays that it meets."""
    return next(x.dtype for x in operands if isinstance(x, np.ndarray))


def _gradients(sample: Sample, inputs: tuple[Any, ...], out: Any, create_graph: bool = False) -> Any:
    weight = as_tensor(draw(sample.name + "-weight", out.array.shape).astype(out.array.dtype))
    wanted = [inputs[i] for i in sample.differentiable]
    return grad(out, wanted, weight, create_graph=create_graph)


def _projection(sample: Sample) -> list[Any]:
    return [draw(f"{sample.name}-projection-{i}", np.shape(sample.inputs[i])) for i in sample.differentiable]


def _second(sample: Sample, inputs: tuple[Any, ...]) -> Any:
    """The gradient of a random projection of the first gradient; zeros where that is constant."""
    with enable_grad():
        first = _gradients(sample, inputs, _called(sample, inputs), create_graph=True)
        wanted = [inputs[i] for i in sample.differentiable]
        terms = [(g * as_tensor(w)).sum() for g, w in zip(first, _projection(sample), strict=True)]
        total: Any = sum(terms, as_tensor(np.zeros(())))
    if not total.requires_grad:
        return [as_tensor(np.zeros(t.array.shape)) for t in wanted]
    return grad(total, wanted, allow_unused=True, materialize_grads=True)


def _directions(sample: Sample, i: int) -> list[Any]:
    shape = np.shape(sample.inputs[i])
    return [draw(f"{sample.name}-{i}-{n}", shape, -1.0, 1.0) for n in range(2)]


def _agree(got: Any, expected: Any, tolerance: float) -> None:
    assert abs(got - expected) <= tolerance * max(1.0, abs(got), abs(expected)), (got, expected)
