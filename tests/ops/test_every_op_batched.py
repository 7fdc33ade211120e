"""Every op under `vmap` is what a loop over the examples gives: values and gradients, whichever inputs are batched."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.samples import SAMPLES, Sample

import adjoint as ad
from adjoint import func
from adjoint.ops.elementwise.arithmetic import mul
from adjoint.ops.reduction.reduction import sum as total
from adjoint.transforms.vmap.batched_tensor import VmapLevel
from adjoint.transforms.vmap.batching_rules import apply_batching_rule, find_rule, loop_fallback

SIZE = 3
DETERMINED = [
    s for s in SAMPLES if s.op.family not in ("random", "check") and any(isinstance(x, np.ndarray) for x in s.inputs)
]
# What `vmap` does one example at a time; a new op without a rule is to be added here, or to get one.
LOOPED = {
    "bin_edges", "counts_in_bins", "dirichlet_gradient", "even_ratios", "even_steps", "histogram", "isin",
    "lookup_sparse", "most_frequent", "nonzero_places", "pdist", "restride", "sample_products", "searchsorted",
    "sparse_product", "standard_deviation", "standard_gamma_gradient", "strided_sum",
}  # fmt: skip
POSITIVE_DEFINITE = {"cholesky"}


def batches(sample: Sample) -> Iterator[tuple[int, ...]]:
    """Which inputs are batched: each alone, and all."""
    arrays = tuple(i for i, x in enumerate(sample.inputs) if isinstance(x, np.ndarray))
    yield from ((i,) for i in arrays)
    if len(arrays) > 1:
        yield arrays


CASES = [
    pytest.param(sample, chosen, id=f"{sample.name}-{''.join(map(str, chosen))}")
    for sample in DETERMINED
    for chosen in batches(sample)
]


def examples(sample: Sample, chosen: tuple[int, ...]) -> list[list[Any]]:
    """The inputs for each example: the chosen ones hold the same elements in another order, or multiples of them."""

    def other(x: Any, b: int) -> Any:
        if sample.op.name in POSITIVE_DEFINITE:
            return x * (b + 1)
        return np.roll(x.reshape(-1), 2 * b).reshape(x.shape)

    return [[other(x, b) if i in chosen else x for i, x in enumerate(sample.inputs)] for b in range(SIZE)]


def stacked(sample: Sample, chosen: tuple[int, ...], axis: int) -> tuple[list[Any], tuple[int | None, ...]]:
    """The inputs with the batch at `axis` of the chosen ones, and where it is."""
    rows = examples(sample, chosen)
    inputs: list[Any] = []
    dims: list[int | None] = []
    for i, x in enumerate(sample.inputs):
        at = min(axis, x.ndim) if i in chosen else None
        value = np.stack([row[i] for row in rows], at) if at is not None else x
        inputs.append(ad.tensor(value) if isinstance(value, np.ndarray) else value)
        dims.append(at)
    return inputs, tuple(dims)


def tensors(inputs: list[Any]) -> list[Any]:
    return [ad.tensor(x) if isinstance(x, np.ndarray) else x for x in inputs]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("sample", "chosen"), CASES)
def test_values(sample: Sample, chosen: tuple[int, ...], axis: int) -> None:
    inputs, dims = stacked(sample, chosen, axis)
    out = ad.vmap(lambda *xs: sample.function(*xs, **sample.params), in_dims=dims)(*inputs)
    expected = [sample.function(*tensors(row), **sample.params).numpy() for row in examples(sample, chosen)]
    assert out.numpy().dtype == expected[0].dtype
    np.testing.assert_allclose(out.numpy(), np.stack(expected), rtol=1e-12, atol=1e-12)


# The sparse gradients of a batch would have different rows: vmap refuses them.
DENSE = [case for case in CASES if case.values[0].differentiable and case.values[0].op.name != "lookup_sparse"]


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("sample", "chosen"), DENSE)
def test_gradients(sample: Sample, chosen: tuple[int, ...]) -> None:
    places = sample.differentiable
    inputs, dims = stacked(sample, chosen, 0)
    rows = examples(sample, chosen)
    shape = sample.function(*tensors(rows[0]), **sample.params).shape
    weight = ad.tensor(np.random.default_rng(0).random(tuple(shape)))

    def loss(*xs: Any) -> Any:
        out = sample.function(*xs, **sample.params)
        return total(mul(out, weight), axes=tuple(range(out.ndim)), keepdims=False)

    slopes = [func.grad(loss, argnums=places)(*tensors(row)) for row in rows]
    each = ad.vmap(func.grad(loss, argnums=places), in_dims=dims)(*inputs)
    for k, i in enumerate(places):
        expected = np.stack([slope[k].numpy() for slope in slopes])
        np.testing.assert_allclose(each[k].numpy(), expected, rtol=1e-9, atol=1e-11, err_msg=f"vmap(grad), input {i}")
    together = func.grad(lambda *xs: ad.vmap(loss, in_dims=dims)(*xs).sum(), argnums=places)(*inputs)
    for k, i in enumerate(places):
        expected = np.stack([slope[k].numpy() for slope in slopes])
        expected = expected if i in chosen else expected.sum(0)
        np.testing.assert_allclose(together[k].numpy(), expected, rtol=1e-9, atol=1e-11, err_msg=f"grad(vmap), {i}")


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("sample", "chosen"), CASES)
def test_a_batch_in_a_batch(sample: Sample, chosen: tuple[int, ...]) -> None:
    """The inner level batches the first of the chosen inputs, the outer one all others and this."""
    inputs, dims = stacked(sample, chosen, 0)
    first = chosen[0]
    again = [ad.stack([x, x.flip(0)], 0) if i == first else x for i, x in enumerate(inputs)]
    f = lambda *xs: sample.function(*xs, **sample.params)  # noqa: E731
    inner = ad.vmap(f, in_dims=dims)
    out = ad.vmap(inner, in_dims=tuple(0 if i == first else None for i in range(len(inputs))))(*again)
    expected = [inner(*[x[b] if i == first else x for i, x in enumerate(again)]).numpy() for b in range(2)]
    np.testing.assert_allclose(out.numpy(), np.stack(expected), rtol=1e-12, atol=1e-12)


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("sample", "chosen"), CASES)
def test_rules_against_the_loop(sample: Sample, chosen: tuple[int, ...]) -> None:
    """A rule gives what one example at a time gives, of an empty batch too."""
    op = sample.op
    if op.composite is not None:
        pytest.skip("a tracer sees what it is composed of")
    inputs, _ = stacked(sample, chosen, 0)
    for size in (SIZE, 0):
        level = VmapLevel(size, "error")
        given = [level.enter(x[:size]) if i in chosen else x for i, x in enumerate(inputs)]
        operands = list(map(level.physical, given))
        (out, _), looped = (
            apply_batching_rule(op, operands, sample.params, size, "error"),
                loop_fallback(op, operands, sample.params, size)
        )  # fmt: skip
        assert out.dtype is looped.dtype
        np.testing.assert_allclose(out.numpy(), looped.numpy(), rtol=1e-12, atol=1e-12)


def test_ops_without_a_rule() -> None:
    assert {s.op.name for s in DETERMINED if s.op.composite is None and find_rule(s.op) is loop_fallback} == LOOPED
