"""Tests of traces see the collector as a user does: the tracer asks it which function a frame belongs to."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _objects_are_not_frozen() -> Iterator[None]:
    """Thaw what tests/conftest.py has frozen for the time of a test."""
    gc.unfreeze()
    yield
    gc.freeze()
