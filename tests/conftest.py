"""Settings for all tests: hypothesis profiles, a cache of their own, and `nightly` tests only where asked for."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

NIGHTLY = os.environ.get("ADJOINT_NIGHTLY") == "1"

# Machine code goes to a folder of this run, never to the user's; workers of one run share what the first one compiled.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["ADJOINT_CACHE_DIR"] = tempfile.mkdtemp(prefix="adjoint-tests-")
    atexit.register(shutil.rmtree, os.environ["ADJOINT_CACHE_DIR"], ignore_errors=True)

# No deadlines and no check for slow generation: both judge the machine. A run of `ci` repeats the one before, so that a
# failure is a change's doing; `nightly` explores.
settings.register_profile("ci", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("nightly", settings.get_profile("ci"), derandomize=False, max_examples=1000, print_blob=True)
settings.load_profile("nightly" if NIGHTLY else "ci")


@pytest.fixture(autouse=True)
def _functions_that_ask_nobody() -> Iterator[None]:
    """A subclass of Tensor lets public functions ask for `__torch_function__` from then on: here, to the test's end."""
    yield
    _unasking()


@pytest.fixture
def asking() -> None:
    """Public functions ask the subclasses that the test's module has defined."""
    from adjoint.core.tensor import torch_function as overriding

    overriding.install()


def pytest_collection_finish() -> None:
    _unasking()


def _unasking() -> None:
    from adjoint.core.tensor import torch_function as overriding

    overriding.uninstall()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if NIGHTLY:
        return
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.skip(reason="nightly: set ADJOINT_NIGHTLY=1"))
