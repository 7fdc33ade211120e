"""A start for tests that count what a loop leaves behind."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _no_native_functions_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no kernel of small arrays made after a thousand calls: it brings objects that stay, and cycles."""
    # by its name: the package sets filters of warnings, which are lost if this file is the first to import it
    monkeypatch.setattr("adjoint.core.op.elementwise_kernels.MAX_CALLS_WITHOUT_KERNEL", sys.maxsize)
