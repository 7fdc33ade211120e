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
