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
    """Tell the seed before the list of failures, which comes last, and in that list each failure's line."""
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        terminalreporter.write_line(f"Tests ran in the order of ADJOINT_TEST_SEED={SEED}, which repeats it.")
    for report in (*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")):
        name, bracket, parameters = report.nodeid.partition("[")
        report.nodeid = f"{name}{_find_line(report)}{bracket}{parameters}"


def _find_line(report: Any) -> str:
    """Return " (line 12)": where the test's own file failed, or else " (src/a.py:3)": where the error was raised."""
    entries = getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", ())
    places = [place for entry in entries if (place := getattr(entry, "reprfileloc", None)) is not None]
    own = [place.lineno for place in places if report.nodeid.split("::")[0].endswith(place.path)]
    if own:
        return f" (line {own[-1]})"
    return f" ({places[-1].path}:{places[-1].lineno})" if places else ""


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, pytest.CollectReport]:
    """Shuffle folders, then files, then tests within a file: what a file sets up once is set up once.

    The seed and names alone decide which of two comes first, so fewer files have the order that they have among all.
    """
    report = yield
    report.result.sort(key=lambda node: hashlib.blake2b(f"{SEED} {node.nodeid}".encode()).digest())
    return report
