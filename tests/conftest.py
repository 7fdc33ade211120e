"""Settings for all tests: hypothesis profiles, a cache, nothing left behind, marks that have tests skipped."""

import atexit
import gc
import multiprocessing
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from tests import order
from tests.order import SEED
from tests.support.torch_use import find_torch_use, looks_for_torch, mentions_torch

NIGHTLY = os.environ.get("ADJOINT_NIGHTLY") == "1"

ROOT = Path(__file__).parents[1]

# Machine code goes to a folder of this run, never to the user's; workers of one run share what the first one compiled.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["ADJOINT_CACHE_DIR"] = tempfile.mkdtemp(prefix="adjoint-tests-")
    atexit.register(shutil.rmtree, os.environ["ADJOINT_CACHE_DIR"], ignore_errors=True)

# Since Python 3.14 workers of loaders come from a server, which takes datasets by pickle: not the local ones of tests.
if "fork" in multiprocessing.get_all_start_methods():
    multiprocessing.set_start_method("fork", force=True)

# No deadlines and no check for slow generation: both judge the machine. A run of `ci` repeats the one before, so that a
# failure is a change's doing; `nightly` explores.
settings.register_profile("ci", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("nightly", settings.get_profile("ci"), derandomize=False, max_examples=1000, print_blob=True)
settings.load_profile("nightly" if NIGHTLY else "ci")
if not NIGHTLY:  # Hypothesis would draw numbers that stand in the source of all that happens to be imported, too
    providers._get_local_constants = lambda: providers._local_constants


@pytest.fixture(autouse=True)
def _each_test_for_itself(request: pytest.FixtureRequest) -> Iterator[None]:
    """Random numbers that the order's seed and the test's name tell, and settings that are left as they were found.

    A subclass of Tensor lets public functions ask for `__torch_function__` from then on: here, to the test's end.
    """
    import adjoint

    adjoint.manual_seed(zlib.crc32(f"{SEED} {request.node.nodeid}".encode()))
    before = _settings()
    yield
    _unasking()
    assert _settings() == before, "this test leaves settings to those after it"


def _settings() -> dict[str, Any]:
    import adjoint as ad
    from adjoint.core.runtime.mode import mode
    from adjoint.core.tensor.printing import options

    asked = (
        ad.get_default_dtype, ad.get_num_threads, ad.get_float32_matmul_precision, ad.is_warn_always_enabled,
        ad.are_deterministic_algorithms_enabled, ad.is_deterministic_algorithms_warn_only_enabled,
        gc.isenabled, np.geterr, np.get_printoptions,
    )  # fmt: skip
    printing = {f"printing {name}": getattr(options, name) for name in options.__slots__}
    return {**{ask.__name__: ask() for ask in asked}, **printing, **vars(mode)}


@pytest.fixture
def asking() -> None:
    """Public functions ask the subclasses that the test's module has defined."""
    from adjoint.core.tensor import torch_function as overriding

    overriding.patch_functions()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the collector, which would walk over those that are there already again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Freeze the objects of all tests: the collector would walk over millions of them again and again."""
    _unasking()
    gc.collect()
    gc.freeze()


def _unasking() -> None:
    from adjoint.core.tensor import torch_function as overriding

    overriding.unpatch_functions()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write texts kept beside tests anew")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(order)  # as a plugin: hooks of a conftest do not see every folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if looks_for_torch(item):
            item.add_marker("oracle")
        if not NIGHTLY and item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.skip(reason="nightly: set ADJOINT_NIGHTLY=1"))
        for mark in ("needs_processes", "needs_threads"):
            if sys.platform == "emscripten" and item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=f"{mark}: a browser has none"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files unread that `-m oracle` would only deselect: most of them, and a run begins sooner."""
    is_test = collection_path.suffix == ".py" and collection_path.is_file()
    return True if config.option.markexpr == "oracle" and is_test and not mentions_torch(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, pytest.CollectReport]:
    report = yield
    if report.skipped:  # what was half imported is not there for the next file that imports from it
        sys.modules.pop(".".join(collector.path.relative_to(ROOT).with_suffix("").parts), None)
    _refuse_a_test_that_never_runs(report, not report.skipped or find_torch_use(collector.path).whole)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, pytest.TestReport]:
    report = yield
    _refuse_a_test_that_never_runs(report, item.get_closest_marker("oracle") is not None)
    return report


def _refuse_a_test_that_never_runs(report: pytest.TestReport | pytest.CollectReport, is_run_beside: bool) -> None:
    """Fail what is skipped for want of PyTorch and would not be run by `-m oracle` either."""
    if report.skipped and "could not import 'torch" in str(report.longrepr) and not is_run_beside:
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} needs PyTorch, which tests/support/torch_use.py does not see"
