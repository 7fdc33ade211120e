"""The order of tests, and the cases of sweeps that a run takes: both of chance, and the seed repeats both.

No test may rest on another, so the order differs from run to run. A sweep is a test of very many like cases, marked
`sweep(n)`: a run of whole folders takes one of every n of them, and leaves out what is marked `nightly`. All run
nightly, and where files, tests or `-k` ask.
"""

import hashlib
import os
import secrets
from collections import defaultdict
from collections.abc import Generator, Sequence
from typing import Any

import pytest

SEED = os.environ.get("ADJOINT_TEST_SEED") or str(secrets.randbelow(10**6))
os.environ["ADJOINT_TEST_SEED"] = SEED  # for workers, which must agree


def pytest_report_header() -> str:
    return f"order of tests, and cases of sweeps: ADJOINT_TEST_SEED={SEED}"


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
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, pytest.CollectReport]:
    """Shuffle folders, then files, then tests within a file: what a file sets up once is set up once.

    The seed and names alone decide which of two comes first, so fewer files have the order that they have among all.
    """
    report = yield
    if not takes_whole_sweeps(collector.config):
        report.result[:] = sample_sweeps(report.result)
    report.result.sort(key=lambda node: _draw(node.nodeid))
    return report


def takes_whole_sweeps(config: pytest.Config) -> bool:
    """Tell whether all cases of sweeps run: nightly, and for who names files, tests or keywords."""
    nightly = os.environ.get("ADJOINT_NIGHTLY") == "1"
    return nightly or bool(config.option.keyword) or any(".py" in argument for argument in config.args)


def sample_sweeps(nodes: Sequence[pytest.Item | pytest.Collector]) -> list[pytest.Item | pytest.Collector]:
    """Leave one of every n cases of each test that is marked `sweep(n)`, no nightly one, the others as they are.

    The one is drawn from n neighbours in the table of cases, which are alike: no region of a table is left out.
    """
    left: list[pytest.Item | pytest.Collector] = []
    cases: defaultdict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for node in nodes:
        is_test = isinstance(node, pytest.Function)
        if is_test and node.get_closest_marker("nightly"):
            continue
        mark = node.get_closest_marker("sweep") if is_test else None
        if mark is None:
            left.append(node)
        else:
            cases[node.nodeid.partition("[")[0], mark.args[0]].append(node)
    for (test, n), table in cases.items():
        for start in range(0, len(table), n):
            neighbours = table[start : start + n]
            left.append(neighbours[int.from_bytes(_draw(f"{test} {start}")[:8]) % len(neighbours)])
    return left


def _draw(name: str) -> bytes:
    """Return what the seed draws for a name."""
    return hashlib.blake2b(f"{SEED} {name}".encode()).digest()
