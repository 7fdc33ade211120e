"""Dtypes of `out=`: each function of PyTorch's table takes the `out` that PyTorch's takes, and refuses the others."""

import warnings
from typing import Any

import pytest
from tests.support.converted import Other, each, ours, tensors
from tests.support.torch_samples import TABLE, counterpart, label, samples, torch

import adjoint as ad
import adjoint.nn.functional as F

DTYPES = ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"]
# differences of dtypes, and why
REDUCTIONS = ("all", "any", "cumprod", "cumsum", "logsumexp", "mean", "nanmean", "nansum", "std", "var")
CASTS_INPUT = "PyTorch casts the input, or has no kernel for the type; ours computes, and casts the result"
OTHERWISE: dict[str, str] = {
    **dict.fromkeys(REDUCTIONS, CASTS_INPUT),
    **dict.fromkeys(("fft.ifft", "fft.ihfft", "fft.ihfftn"), "PyTorch scales in place, where it cannot always write"),
    "hash_tensor": "of uint64, with which PyTorch refuses to compare other types",
    "histogramdd": "PyTorch takes no `out`",
    "native_batch_norm": "takes no `out` here: an internal form of a normalization",
    "abs": "PyTorch takes complex results of complex numbers",
    "bernoulli": "PyTorch draws in the type of `out`",
    "linalg.matrix_power": "PyTorch casts the powers 0 and 1",
    "diff": "PyTorch casts a difference, but not a difference of order 0",
    "normal": "PyTorch draws in the type of `out`",
}  # fmt: skip
WITH_OUT = [op for op in TABLE if op.supports_out and counterpart(op) and op.name not in OTHERWISE]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("op", WITH_OUT, ids=label)
def test_each_function_takes_the_types_that_pytorchs_takes(op: Any) -> None:
    for kind in ("float32", "int64"):
        for sample in samples(op, kind, 1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _compare_types(op, sample)


def _compare_types(op: Any, sample: Any) -> None:
    """Assert for each result, and for each type of its `out`, that both libraries write or both raise."""
    sample = each(sample, lambda x: x.detach())
    expected = op.op(sample.input, *sample.args, **sample.named)
    results = [expected] if isinstance(expected, torch.Tensor) else list(tensors(expected))
    function = counterpart(op)
    assert function is not None
    for at in range(len(results)):
        for name in DTYPES:
            kinds = [str(x.dtype).removeprefix("torch.") for x in results]
            kinds[at] = name
            given, raised = sample, []
            for library, call in ((torch, op.op), (ad, function)):
                outs = [
                    library.zeros(tuple(x.shape), dtype=getattr(library, k))
                    for x, k in zip(results, kinds, strict=True)
                ]
                try:
                    call(given.input, *given.args, **given.named, out=outs[0] if len(outs) == 1 else tuple(outs))
                except Other:
                    return
                except (RuntimeError, NotImplementedError, TypeError) as error:
                    raised.append(error)
                else:
                    raised.append(None)
                given = ours(sample)
            assert "unexpected keyword" not in str(raised[1])
            assert (raised[0] is None) == (raised[1] is None), (kinds, raised)


INDICES_IN_BYTES = "Expected out tensor to have dtype long int, but got unsigned char instead"
LABELS = ad.arange(300.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ad.argmax(LABELS, 0, out=ad.zeros((), dtype=ad.uint8)), INDICES_IN_BYTES),
        (lambda: ad.argmin(LABELS, 0, out=ad.zeros((), dtype=ad.uint8)), INDICES_IN_BYTES),
        (
            lambda: ad.searchsorted(LABELS, ad.tensor([280.0]), out=ad.zeros(1, dtype=ad.uint8)),
            r"output tensor's dtype is wrong, it can only be Int\(int32\) or Long\(int64\)",
        ),
        (
            lambda: ad.mm(ad.eye(2, dtype=ad.float64), ad.eye(2, dtype=ad.float64), out=ad.zeros(2, 2)),
            "Expected out tensor to have dtype double, but got float instead",
        ),
        (lambda: ad.ones(2).float_power_(2), "has dtype Float but the operation's result requires dtype Double"),
        (lambda: ad.randn(2, dtype=ad.float64, out=ad.zeros(2)), "dtype Double does not match dtype of out parameter"),
    ],
)
def test_narrower_types_are_refused(call: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda o: ad.clamp_max(ad.tensor([1.0, 0.25]), 0.5, out=o), [0.5, 0.25]),
        (lambda o: ad.clamp_min(ad.tensor([1.0, 0.25]), 0.5, out=o), [1.0, 0.5]),
        (lambda o: F.avg_pool2d(ad.ones(1, 2, 2), 2, out=o), [[[1.0]]]),
        (lambda o: F.avg_pool3d(ad.ones(1, 2, 2, 2), 2, out=o), [[[[1.0]]]]),
        (lambda o: F.gelu(ad.tensor([0.0]), out=o), [0.0]),
        (lambda o: F.hardshrink(ad.tensor([0.25, 2.0]), out=o), [0.0, 2.0]),
        (lambda o: F.linear(ad.ones(2), ad.ones(1, 2), ad.ones(1), out=o), [3.0]),
        (lambda o: ad.linalg.lstsq(ad.eye(2), ad.ones(2, 1), out=(o, *_parts()))[0], [[1.0], [1.0]]),
        (lambda o: ad.lu(ad.eye(2), out=(o, ad.zeros(0, dtype=ad.int64)))[0], [[1.0, 0.0], [0.0, 1.0]]),
    ],
)  # fmt: skip
def test_functions_whose_out_is_undocumented_write_too(call: Any, expected: Any) -> None:
    out = ad.zeros(0)
    assert call(out) is out
    assert out.tolist() == expected


def _parts() -> list[ad.Tensor]:
    return [ad.zeros(0, dtype=kind) for kind in (ad.float32, ad.int64, ad.float32)]


def test_membership_is_written_into_truths_alone() -> None:
    out = ad.zeros(2, dtype=ad.bool)
    ad.isin(ad.tensor([1, 2]), ad.tensor([2]), out=out)
    assert out.tolist() == [False, True]


def test_addbmm_in_place_takes_the_shape_of_the_product() -> None:
    x = ad.ones(1)
    assert x.addbmm_(ad.ones(2, 5, 3), ad.ones(2, 3, 10)) is x
    assert x.tolist() == [[7.0] * 10] * 5
