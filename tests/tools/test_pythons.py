"""tools/pythons.py: versions of Python, where they are found, what is installed; and each night the tests on all."""

import sys
from pathlib import Path

import pytest
from tools import pythons
from tools.pythons import Interpreter, NotToBeHad, find_interpreter, make_system, read_versions, runs, select_pins

THIS = "{}.{}".format(*sys.version_info)


def test_versions_are_those_of_the_package_but_for_this_one() -> None:
    assert {*read_versions(), THIS} == {"3.11", "3.12", "3.13", "3.14", "3.15"}


def test_a_command_must_be_the_version_that_is_asked_for() -> None:
    assert runs(sys.executable, THIS)
    assert not runs(sys.executable, "3.1")
    assert not runs(str(Path(sys.prefix) / "no such python"), THIS)


def test_the_newest_of_pyenv_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for build in ("9.9.2", "9.9.10", "9.8.1"):
        (tmp_path / "versions" / build).mkdir(parents=True)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr(pythons, "runs", lambda command, version: True)
    monkeypatch.setattr(pythons.shutil, "which", lambda name: None)
    assert find_interpreter("9.9").command == str(tmp_path / "versions" / "9.9.10" / "bin" / "python")


def test_a_version_that_is_not_to_be_had_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotToBeHad, match="no suite of Debian is known to have Python"):
        make_system("3.99", tmp_path / "system")
    monkeypatch.setattr(pythons.shutil, "which", lambda name: None)
    with pytest.raises(NotToBeHad, match="debootstrap, as root, would get it"):
        make_system("3.15", tmp_path / "system")


def test_a_system_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "debootstrap").write_text("#!/bin/sh\nmkdir -p $4/usr && exit $FAKED_STATUS\n")
    (tmp_path / "debootstrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(pythons.os, "geteuid", lambda: 0)
    monkeypatch.setattr(pythons, "ENVIRONMENTS", tmp_path)
    monkeypatch.setenv("FAKED_STATUS", "1")
    with pytest.raises(NotToBeHad, match="debootstrap failed"):
        make_system("3.15", tmp_path / "system")
    assert not (tmp_path / "system").exists()
    monkeypatch.setenv("FAKED_STATUS", "0")
    make_system("3.15", tmp_path / "system")
    assert (tmp_path / "system" / "usr").is_dir()


def test_what_only_looks_at_the_source_is_not_installed() -> None:
    wanted = "numpy==2.0 ; python_version < '3.15' \\\n    --hash=sha256:b\n"
    lock = f"# made\nmypy==1.0 \\\n    --hash=sha256:a\n    # via x\n{wanted}"
    assert select_pins(lock) == f"# made\n{wanted}"


def test_the_exit_status_tells_failures_from_what_is_not_to_be_had(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(version: str) -> Interpreter:
        if version == "3.14":
            raise NotToBeHad("there is no such Python")
        return Interpreter(version, "python", Path("nowhere"))

    monkeypatch.setattr(pythons, "find_interpreter", find)
    monkeypatch.setattr(pythons, "make_environment", lambda interpreter: None)
    monkeypatch.setattr(pythons, "run_tests", lambda interpreter, tests: interpreter.version != "3.15")
    assert pythons.main(["3.12", "3.13"]) == 0
    assert pythons.main(["3.12", "3.14"]) == 2
    assert "3.14 is not to be had here: there is no such Python" in capsys.readouterr().err
    assert pythons.main(["3.14", "3.15"]) == 1
    assert pythons.main(["3.15", "--only", "get"]) == 0


@pytest.mark.nightly
@pytest.mark.parametrize("version", read_versions())
def test_each_python_passes_the_tests_that_it_may_break(version: str) -> None:
    status = pythons.main([version])
    if status == 2:
        pytest.skip(f"Python {version} is not to be had here")
    assert status == 0
