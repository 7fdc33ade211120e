"""The order of tests: one of chance, since no test may rest on another. Who repeats an order gives its seed."""

import hashlib
import os
import secrets
from collections.abc import Generator
from typing import Any

import pytest

SEED = os.environ.get("ADJOINT_TEST_SEED") or str(secrets.randbelow(10**6))
os.environ["ADJOINT_TEST_SEED"] = SEED  # for workers, which must agree


def pytest_report_header() -> str:
    return f"order of tests: ADJOINT_TEST_SEED={SEED}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        terminalreporter.write_line(f"Tests ran in the order of ADJOINT_TEST_SEED={SEED}, which repeats it.")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, pytest.CollectReport]:
    """Shuffle folders, then files, then tests within a file: what a file sets up once is set up once.

    The seed and names alone decide which of two comes first, so fewer files have the order that they have among all.
    """
    report = yield
    report.result.sort(key=lambda node: hashlib.blake2b(f"{SEED} {node.nodeid}".encode()).digest())
    return report
