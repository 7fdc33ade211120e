"""tools/pyodide.py: which tests run, what is needed for them; and each night all of them in Pyodide."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from tools import pyodide


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The arguments of each process that runs tests; a signal ends the second of several."""
    runs: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        runs.append(command[5:])
        return SimpleNamespace(returncode=-9 if len(runs) == 2 else 0)

    monkeypatch.setattr(pyodide, "find_node", lambda: "node")
    monkeypatch.setattr(pyodide, "fetch_runtime", lambda: pyodide.CACHE)
    monkeypatch.setattr(pyodide, "fetch_testing_packages", lambda: pyodide.CACHE)
    monkeypatch.setattr(pyodide.subprocess, "run", run)
    return runs


def test_named_tests_run_in_one_process(started: list[list[str]]) -> None:
    assert pyodide.main(["-q", "tests/core/op", "tests/nn"]) == 0
    assert started == [["-q", "tests/core/op", "tests/nn"]]


def test_without_a_path_each_suite_runs_and_the_worst_status_is_told(started: list[list[str]]) -> None:
    assert pyodide.main(["-x"]) == -9
    assert started == [["-x", suite] for suite in pyodide.TESTS]
    assert all((pyodide.ROOT / suite).exists() for suite in pyodide.TESTS)


def test_without_node_the_status_is_none_of_pytests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pyodide.shutil, "which", lambda name: None)
    assert pyodide.main([]) == pyodide.NOT_TO_BE_HAD
    assert "it needs Node" in capsys.readouterr().err


@pytest.mark.nightly
@pytest.mark.parametrize("suite", pyodide.TESTS)
def test_each_suite_passes_in_pyodide(suite: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ADJOINT_")}
    command = [sys.executable, "tools/pyodide.py", "-q", suite]
    status = subprocess.run(command, cwd=pyodide.ROOT, env=environment, check=False).returncode
    if status == pyodide.NOT_TO_BE_HAD:
        pytest.skip("Node or the runtime is not to be had here")
    assert status == 0
