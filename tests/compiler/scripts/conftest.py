"""Training regions of tests are compiled from their third call on: those of programs wait until it is due."""

from __future__ import annotations

import pytest

from adjoint.compiler.scripts import region_times


@pytest.fixture(autouse=True)
def compile_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no more eager calls than those that are observed."""
    monkeypatch.setattr(region_times, "MAX_CALLS_BEFORE_COMPILING", 1)
