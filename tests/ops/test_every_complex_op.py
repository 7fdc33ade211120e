"""What holds for every op of complex numbers: spec, types, gradients, forward mode, batches, traced and compiled."""

from typing import Any

import numpy as np
import pytest
from tests.support.samples import COMPLEX, Sample

import adjoint as ad
from adjoint.core.op.spec import Spec

every = pytest.mark.parametrize("sample", COMPLEX, ids=lambda s: s.name)
in_both_types = pytest.mark.parametrize("narrow", [False, True], ids=["double", "single"])
CLOSE: dict[bool, Any] = {False: {"rtol": 1e-12, "atol": 1e-12}, True: {"rtol": 2e-5, "atol": 2e-5}}
NARROW = {"f": np.float32, "c": np.complex64}


def arrays(sample: Sample, narrow: bool = False) -> list[Any]:
    return [x.astype(NARROW[x.dtype.kind]) if narrow else x for x in sample.inputs]


def call(sample: Sample, *inputs: Any) -> Any:
    return sample.function(*inputs, **sample.settings())


def with_gradients(sample: Sample, *given: Any) -> list[Any]:
    """The op's value, and the gradients of a real number made of all its parts."""
    leaves = [x.detach().requires_grad_() for x in given]
    out = call(sample, *leaves)
    total = (out * ad.tensor(np.cos(np.arange(out.numel())).reshape(out.shape), dtype=out.dtype)).sum()
    return [out, *ad.autograd.grad(total.real + 2 * total.imag if total.is_complex() else total, leaves)]


@every
@in_both_types
def test_spec_and_types(sample: Sample, narrow: bool) -> None:
    given = arrays(sample, narrow)
    out, *gradients = with_gradients(sample, *map(ad.tensor, given))
    spec = sample.op.spec(*(Spec(x.shape, x.dtype) for x in given), **sample.settings())
    assert spec == Spec(out.array.shape, out.array.dtype)
    assert [(g.array.shape, g.array.dtype) for g in gradients] == [(x.shape, x.dtype) for x in given]
    assert out.array.real.dtype == (np.float32 if narrow else np.float64)


@every
def test_gradients_in_both_modes(sample: Sample) -> None:
    inputs = [ad.tensor(x[:2, :2], requires_grad=True) for x in sample.inputs]
    assert ad.autograd.gradcheck(
        lambda *x: call(sample, *x), inputs, check_forward_ad=True, check_batched_grad=True,
        check_batched_forward_grad=True,
    )  # fmt: skip


@every
def test_second_gradients(sample: Sample) -> None:
    inputs = [ad.tensor(x[:2, :2], requires_grad=True) for x in sample.inputs]
    assert ad.autograd.gradgradcheck(lambda *x: call(sample, *x), inputs)


@every
@in_both_types
def test_compiled_is_eager(sample: Sample, narrow: bool) -> None:
    given = [ad.tensor(x) for x in arrays(sample, narrow)]

    def step(*inputs: Any) -> list[Any]:
        return with_gradients(sample, *inputs)

    pytest.importorskip("llvmlite")
    for ours, expected in zip(ad.compile(step)(*given), step(*given), strict=True):
        assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(ours.detach().numpy(), expected.detach().numpy(), **CLOSE[narrow])


@every
def test_batched_is_one_by_one(sample: Sample) -> None:
    batches = [np.stack([x, x[::-1], 2 * x], 1) for x in sample.inputs]
    out = ad.vmap(lambda *x: call(sample, *x), in_dims=1)(*map(ad.tensor, batches))
    alone = [call(sample, *(ad.tensor(x[:, i]) for x in batches)) for i in range(3)]
    np.testing.assert_allclose(out.numpy(), np.stack([y.numpy() for y in alone]), rtol=1e-12, atol=1e-12)
