"""Forward mode of every op: J t against Jᵀ g, against differences, and both modes over each other."""

from typing import Any

import numpy as np
import pytest
from tests.support.samples import SAMPLES, Sample, draw

from adjoint import Tensor, as_tensor
from adjoint.autograd import grad
from adjoint.core.op.families import primitive
from adjoint.core.op.spec import Spec
from adjoint.transforms.forward import dual_level

STEP = 1e-5
# `lookup_sparse` is called for leaves, whose gradient is sparse: tests/functions/sparse
SMOOTH = [s for s in SAMPLES if s.differentiable and s.op.name != "lookup_sparse"]
smooth = pytest.mark.parametrize("sample", SMOOTH, ids=lambda s: s.name)


@pytest.mark.sweep(3)
@smooth
def test_pushed_forward_is_the_transpose_of_pulled_back(sample: Sample) -> None:
    inputs = _tensors(sample)
    out, tangent = _pushed(sample, inputs, _directions(sample))
    for i in sample.differentiable:
        inputs[i].requires_grad_()
    weight = as_tensor(draw(sample.name + "-weight", out.array.shape))
    gradients = grad(sample.function(*inputs, **sample.settings()), [inputs[i] for i in sample.differentiable], weight)
    pulled = sum(
        np.sum(g.array * t.array) for g, t in zip(gradients, _directions(sample).values(), strict=True) if g is not None
    )
    assert np.sum(weight.array * tangent.array) == pytest.approx(pulled, rel=1e-10, abs=1e-12)


@pytest.mark.sweep(3)
@smooth
def test_tangent_is_what_differences_say(sample: Sample) -> None:
    directions = _directions(sample)
    _, tangent = _pushed(sample, _tensors(sample), directions)
    ahead, behind = (
        sample.function(*_moved(sample, directions, step), **sample.settings()).array for step in (STEP, -STEP)
    )
    np.testing.assert_allclose(tangent.array, (ahead - behind) / (2 * STEP), rtol=1e-5, atol=20 * sample.tolerance)


@pytest.mark.sweep(4)
@smooth
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
def test_tangent_has_the_shape_and_type_of_its_tensor(sample: Sample, dtype: Any) -> None:
    inputs = tuple(as_tensor(a) if isinstance(a, np.ndarray) else a for a in sample.arrays(dtype))
    directions = {i: as_tensor(t.array.astype(dtype)) for i, t in _directions(sample).items()}
    out, tangent = _pushed(sample, inputs, directions)
    assert (tangent.array.shape, tangent.array.dtype) == (out.array.shape, out.array.dtype)
    assert out.node is None
    assert tangent.node is None


@pytest.mark.sweep(4)
@smooth
def test_tangent_shares_memory_only_where_its_tensor_does(sample: Sample) -> None:
    inputs, directions = _tensors(sample), _directions(sample)
    out, tangent = _pushed(sample, inputs, directions)
    for i, t in directions.items():
        assert np.may_share_memory(tangent.array, t.array) == np.may_share_memory(out.array, inputs[i].array)


@pytest.mark.sweep(3)
@smooth
def test_second_order_agrees_in_every_order_of_modes(sample: Sample) -> None:
    """H t of ⟨w, f⟩: forward over reverse, reverse over forward, reverse over reverse; and t·H t, forward twice."""
    directions = list(_directions(sample).values())
    expected = _reverse_over_reverse(sample, directions)
    for found in (_forward_over_reverse(sample, directions), _reverse_over_forward(sample, directions)):
        for h, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(h.array, e.array, rtol=1e-9, atol=1e-11)
    total = sum(np.sum(e.array * t.array) for e, t in zip(expected, directions, strict=True))
    assert _forward_over_forward(sample, directions).array == pytest.approx(total, rel=1e-9, abs=1e-10)


@pytest.mark.sweep(3)
@smooth
def test_forward_over_reverse_may_itself_be_recorded(sample: Sample) -> None:
    """The gradient of ½ t·H t, whose H t is pushed forward, against its difference along a second direction."""
    directions = list(_directions(sample).values())

    def curvature(step: float) -> Any:
        moved = _moved(sample, dict(zip(sample.differentiable, directions, strict=True)), step)
        leaves = [moved[i].requires_grad_() for i in sample.differentiable]
        with dual_level.new_level() as level:
            given = list(moved)
            for i, leaf, t in zip(sample.differentiable, leaves, directions, strict=True):
                given[i] = dual_level.attach_tangent(leaf, t, level)
            first = grad(_weighed(sample, given), leaves, create_graph=True, allow_unused=True, materialize_grads=True)
            pushed = [dual_level.tangent_of(g, level) for g in first if g is not None]
        total: Any = as_tensor(np.zeros(()))
        for h, t in zip(pushed, directions, strict=True):
            total = total if h is None else total + (h * t).sum()
        return total, leaves

    total, leaves = curvature(0.0)
    if not total.requires_grad:
        assert abs(curvature(STEP)[0].item() - curvature(-STEP)[0].item()) <= 1e-9
        return
    third = grad(total, leaves, allow_unused=True, materialize_grads=True)
    slope = sum(np.sum(g.array * t.array) for g, t in zip(third, directions, strict=True) if g is not None)
    difference = (curvature(STEP)[0].item() - curvature(-STEP)[0].item()) / (2 * STEP)
    assert slope == pytest.approx(difference, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if not any(s.op.rules)], ids=lambda s: s.name)
def test_what_is_not_differentiable_has_no_tangent_or_refuses(sample: Sample) -> None:
    with dual_level.new_level() as level:
        inputs = [
            dual_level.attach_tangent(x, as_tensor(np.ones_like(x.array)), level)
            if isinstance(x, Tensor) and x.is_floating_point() else x
            for x in _tensors(sample)
        ]  # fmt: skip
        dual = any(dual_level.tangent_of(x, level) is not None for x in inputs if isinstance(x, Tensor))
        plain = sample.function(*_tensors(sample), **sample.settings())
        if dual and plain.is_floating_point() and not sample.op.effect and not sample.op.linear:
            with pytest.raises(NotImplementedError, match="forward AD with"):
                sample.function(*inputs, **sample.settings())
            return
        tangent = dual_level.tangent_of(sample.function(*inputs, **sample.settings()), level)
        assert tangent is None or not np.any(tangent.array)


def _turned_back(g: Any, out: Any) -> Any:
    d = g * (1.0 - out * out)
    return d + turn(d)


@primitive(spec=lambda x: Spec(x.shape, x.dtype), linear=True, dx=lambda g: turn_on(g))
def turn(x: Any) -> Any:
    """Each element in the place of the one before it."""
    return np.roll(x, -1)


@primitive(spec=lambda x: Spec(x.shape, x.dtype), linear=True, dx=lambda g: turn(g))
def turn_on(x: Any) -> Any:
    """Each element in the place of the one after it."""
    return np.roll(x, 1)


@primitive(spec=lambda x: Spec(x.shape, x.dtype), dx=_turned_back)
def coupled(x: Any) -> Any:
    """tanh of the sum of each element and the one before it, around a circle: neither diagonal nor linear."""
    return np.tanh(x + np.roll(x, 1))


def test_any_rule_can_be_transposed() -> None:
    x, t = draw("coupled", (5,)), draw("coupled-t", (5,))
    with dual_level.new_level() as level:
        found = dual_level.tangent_of(coupled(dual_level.attach_tangent(as_tensor(x), as_tensor(t), level)), level)
    expected = (1 - np.tanh(x + np.roll(x, 1)) ** 2) * (t + np.roll(t, 1))
    np.testing.assert_allclose(found.array, expected, rtol=1e-13)
    assert found.node is None


def test_a_transposed_rule_is_differentiable_in_both_modes() -> None:
    sample = Sample("coupled", coupled, (draw("coupled", (5,)),), differentiable=(0,))
    test_second_order_agrees_in_every_order_of_modes(sample)


def _tensors(sample: Sample) -> tuple[Any, ...]:
    return tuple(as_tensor(a) if isinstance(a, np.ndarray) else a for a in sample.arrays(np.float64))


def _directions(sample: Sample) -> dict[int, Tensor]:
    return {
        i: as_tensor(draw(f"{sample.name}-{i}-direction", np.shape(sample.inputs[i]), -1.0, 1.0))
        for i in sample.differentiable
    }


def _moved(sample: Sample, directions: dict[int, Tensor], step: float) -> tuple[Any, ...]:
    return tuple(
        as_tensor(x.array + step * directions[i].array) if i in directions else x
        for i, x in enumerate(_tensors(sample))
    )


def _pushed(sample: Sample, inputs: tuple[Any, ...], directions: dict[int, Tensor]) -> tuple[Any, Any]:
    with dual_level.new_level() as level:
        duals = [
            dual_level.attach_tangent(x, directions[i], level) if i in directions else x for i, x in enumerate(inputs)
        ]
        out = sample.function(*duals, **sample.settings())
        return dual_level.primal_of(out, level), dual_level.tangent_of(out, level)


def _weighed(sample: Sample, inputs: Any) -> Any:
    out = sample.function(*inputs, **sample.settings())
    return (out * as_tensor(draw(sample.name + "-weight", out.array.shape))).sum()


def _with_leaves(sample: Sample) -> tuple[list[Any], list[Any]]:
    inputs = list(_tensors(sample))
    return inputs, [inputs[i].requires_grad_() for i in sample.differentiable]


def _reverse_over_reverse(sample: Sample, directions: list[Tensor]) -> Any:
    inputs, leaves = _with_leaves(sample)
    first = grad(_weighed(sample, inputs), leaves, create_graph=True)
    total: Any = sum(((g * t).sum() for g, t in zip(first, directions, strict=True)), as_tensor(np.zeros(())))
    return _gradients(total, leaves)


def _forward_over_reverse(sample: Sample, directions: list[Tensor]) -> Any:
    inputs, leaves = _with_leaves(sample)
    with dual_level.new_level() as level:
        for i, t in zip(sample.differentiable, directions, strict=True):
            inputs[i] = dual_level.attach_tangent(inputs[i], t, level)
        first = grad(_weighed(sample, inputs), leaves)
        return [_or_zeros(dual_level.tangent_of(g, level), g) for g in first]


def _reverse_over_forward(sample: Sample, directions: list[Tensor]) -> Any:
    inputs, leaves = _with_leaves(sample)
    with dual_level.new_level() as level:
        for i, t in zip(sample.differentiable, directions, strict=True):
            inputs[i] = dual_level.attach_tangent(inputs[i], t, level)
        slope = dual_level.tangent_of(_weighed(sample, inputs), level)
    return _gradients(slope, leaves)


def _forward_over_forward(sample: Sample, directions: list[Tensor]) -> Any:
    inputs = list(_tensors(sample))
    with dual_level.new_level() as outer:
        for i, t in zip(sample.differentiable, directions, strict=True):
            inputs[i] = dual_level.attach_tangent(inputs[i], t, outer)
        with dual_level.new_level() as inner:
            for i, t in zip(sample.differentiable, directions, strict=True):
                inputs[i] = dual_level.attach_tangent(inputs[i], t, inner)
            out = _weighed(sample, inputs)
            slope = dual_level.tangent_of(out, inner)
        return _or_zeros(dual_level.tangent_of(slope, outer), out)


def _gradients(total: Any, leaves: list[Any]) -> Any:
    if not total.requires_grad:
        return [as_tensor(np.zeros(leaf.array.shape)) for leaf in leaves]
    return grad(total, leaves, allow_unused=True, materialize_grads=True)


def _or_zeros(t: Any, like: Any) -> Any:
    return as_tensor(np.zeros(like.array.shape)) if t is None else t
