"""Kernels for eager calls that cannot be made: NumPy takes over, and a fault of the code is told."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.core.op.eager_kernels import KernelRefusal, kernel_provider, report_kernel_errors


@pytest.fixture(autouse=True)
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_provider, "strict", False)


@pytest.mark.parametrize("error", [TypeError("wrong operand"), NameError("x"), AttributeError("y")])
def test_a_fault_is_told(error: Exception) -> None:
    with (
        pytest.warns(RuntimeWarning, match="native code of twice could not be made, so NumPy computes it"),
        report_kernel_errors("twice"),
    ):
        raise error


@pytest.mark.parametrize("error", [KernelRefusal("no kernel type"), ValueError("no kernel of elements")])
def test_a_refusal_is_not(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    with report_kernel_errors("twice"):
        raise error
    monkeypatch.setattr(kernel_provider, "strict", True)
    with pytest.raises(type(error)), report_kernel_errors("twice"):
        raise error


def test_numpy_computes_what_a_faulty_writer_would(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite")
    from adjoint.compiler.eager import row_kernels

    monkeypatch.setattr(kernel_provider, "enabled", True)
    monkeypatch.setattr(row_kernels, "_plan", lambda *_: int([]))
    x = np.random.default_rng(0).normal(size=(31, 97))
    with pytest.warns(RuntimeWarning, match="logcumsumexp"):
        found = ad.logcumsumexp(ad.tensor(x), 1)
    np.testing.assert_allclose(found.numpy(), np.logaddexp.accumulate(x, 1), rtol=1e-12)


@pytest.mark.parametrize("dtype", [ad.int64, ad.int32, ad.float32, ad.bool, ad.int16])
def test_elements_of_all_types_are_gathered_and_joined_as_they_are(dtype):
    lowest, highest = (0, 1) if dtype is ad.bool else (ad.iinfo(dtype if dtype is not ad.float32 else ad.int16).min, 9)
    x = ad.tensor([[lowest, highest, 3], [4, -1, 6]]).to(dtype)
    index = ad.tensor([[2, 0], [1, 1]])
    expected = np.take_along_axis(x.numpy(), index.numpy(), 1)
    for found in (x.gather(1, index), x.t().gather(0, index.t()).t()):
        assert found.dtype is dtype
        assert np.array_equal(found.numpy(), expected)
    for _ in range(2):
        assert np.array_equal(ad.stack([x, x * 1, x], 1).numpy(), np.stack([x.numpy()] * 3, 1))
        assert np.array_equal(ad.cat([x, x.t()[:, :2].t()], 0).numpy(), np.concatenate([x.numpy()] * 2))
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.gather(1, index + 1)
