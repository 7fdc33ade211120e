"""tools/arm64.py: what runs the tests and what they inherit; and each night those that depend on the processor."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tools import arm64


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[list[str], dict[str, str]]]:
    """The arguments and the variables of each process that runs tests, on a machine where a system was made."""
    runs: list[tuple[list[str], dict[str, str]]] = []

    def run(command: list[Any], env: dict[str, str], **_: Any) -> Any:
        runs.append((command[command.index("-q") + 1 :], env))
        return SimpleNamespace(returncode=0)

    (tmp_path / "python").touch()
    monkeypatch.setattr(arm64.shutil, "which", lambda name: name)
    monkeypatch.setattr(arm64.subprocess, "run", run)
    return runs


def test_paths_and_options_go_to_pytest(started: list[tuple[list[str], dict[str, str]]], tmp_path: Path) -> None:
    assert arm64.main([str(tmp_path), "tests/nn", "-x"]) == 0
    assert arm64.main([str(tmp_path)]) == 0
    assert [arguments for arguments, _ in started] == [["tests/nn", "-x"], [*arm64.PARTS]]
    assert all((arm64.ROOT / part).exists() for part in arm64.PARTS)


def test_long_tests_are_not_inherited(
    started: list[tuple[list[str], dict[str, str]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADJOINT_NIGHTLY", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    arm64.main([str(tmp_path)])
    ((_, variables),) = started
    assert "ADJOINT_NIGHTLY" not in variables
    assert variables["OMP_NUM_THREADS"] == "1"


def test_without_an_emulator_the_status_is_none_of_pytests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(arm64.shutil, "which", lambda name: None if "qemu" in name else name)
    assert arm64.main([]) == arm64.NOT_TO_BE_HAD
    assert "needs qemu-aarch64-static: apt-get install" in capsys.readouterr().err


@pytest.mark.nightly
@pytest.mark.parametrize("part", arm64.PARTS)
def test_each_part_passes_on_aarch64(part: str) -> None:
    status = subprocess.run([sys.executable, "tools/arm64.py", part], cwd=arm64.ROOT, check=False).returncode
    if status == arm64.NOT_TO_BE_HAD:
        pytest.skip("a system of aarch64 is not to be had here")
    assert status == 0
