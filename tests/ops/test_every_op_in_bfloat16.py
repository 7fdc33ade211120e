"""Every op on bfloat16: the value and the gradients are those in float32, rounded once."""

from typing import Any

import numpy as np
import pytest
from tests.support.samples import SAMPLES, Sample

import adjoint as ad
from adjoint import Tensor
from adjoint.autograd import grad

ml_dtypes = pytest.importorskip("ml_dtypes")
NARROW = np.dtype(ml_dtypes.bfloat16)
FLOATING = [
    s
    for s in SAMPLES
    if "dtype" not in s.params and any(getattr(x, "dtype", np.dtype(int)).kind == "f" for x in s.inputs)
]
every = pytest.mark.parametrize("sample", FLOATING, ids=lambda s: s.name)
smooth = pytest.mark.parametrize("sample", [s for s in FLOATING if s.differentiable], ids=lambda s: s.name)


@pytest.mark.sweep(4)
@every
def test_value_is_rounded_once(sample: Sample) -> None:
    narrow, wide = both(sample)
    out = np.asarray(called(sample, narrow).array)
    expected = np.asarray(called(sample, wide).array)
    assert out.dtype == (NARROW if expected.dtype == np.float32 else expected.dtype)
    np.testing.assert_array_equal(out.astype(expected.dtype), expected.astype(out.dtype).astype(expected.dtype))


@pytest.mark.sweep(4)
@smooth
def test_gradients_are_rounded_once(sample: Sample) -> None:
    narrow, wide = both(sample)
    for given in (narrow, wide):
        for i in sample.differentiable:
            given[i].requires_grad_()
    out, reference = called(sample, narrow), called(sample, wide)
    seed = np.cos(np.arange(out.numel())).reshape(out.shape).astype(NARROW)
    ours = grad(out, [narrow[i] for i in sample.differentiable], ad.tensor(seed))
    expected = grad(reference, [wide[i] for i in sample.differentiable], ad.tensor(seed.astype(np.float32)))
    for g, truth in zip(ours, expected, strict=True):
        assert g.dtype is ad.bfloat16
        # a rule that reads the output reads it rounded, and what is broadcast sums rounded terms
        largest = max([1.0, *np.abs(truth.array).ravel().tolist()])
        np.testing.assert_allclose(g.float().array, truth.array, rtol=2**-6, atol=2**-7 * largest)


def both(sample: Sample) -> tuple[list[Any], list[Any]]:
    """The inputs in bfloat16, and the same numbers in float32."""
    narrow = [tensor(x, NARROW) for x in sample.inputs]
    return narrow, [x.float() if isinstance(x, Tensor) and x.dtype is ad.bfloat16 else x for x in narrow]


def tensor(x: Any, kind: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    return ad.tensor(x.astype(kind) if x.dtype.kind == "f" else x)


def called(sample: Sample, inputs: list[Any]) -> Tensor:
    out: Tensor = sample.function(*inputs, **sample.settings())
    return out
