"""Settings for all tests: hypothesis profiles, and `nightly` tests only where they are asked for."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

NIGHTLY = os.environ.get("ADJOINT_NIGHTLY") == "1"

# No deadlines and no check for slow generation: both judge the machine. A run of `ci` repeats the one before, so that a
# failure is a change's doing; `nightly` explores.
settings.register_profile("ci", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("nightly", settings.get_profile("ci"), derandomize=False, max_examples=1000, print_blob=True)
settings.load_profile("nightly" if NIGHTLY else "ci")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if NIGHTLY:
        return
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.skip(reason="nightly: set ADJOINT_NIGHTLY=1"))
