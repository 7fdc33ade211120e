"""dev.py and its two locks: the tasks, when `.venv` is taken for whole, and locks that name no place."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.markers import Marker

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
LOCKS = {"dev": LOCK, "docs": (ROOT / "docs" / "requirements.lock").read_text(encoding="utf-8")}


def load() -> ModuleType:
    """The module dev.py, anew."""
    spec = importlib.util.spec_from_file_location("dev", ROOT / "dev.py")
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module dev.py at work in a folder of the test's, where it installs nothing."""
    module = load()
    for name in ("ROOT", "LOCK", "VENV"):
        monkeypatch.setattr(module, name, tmp_path / getattr(module, name).relative_to(ROOT))
    monkeypatch.setattr(module, "call", lambda *arguments, seconds=None: None)
    module.LOCK.write_text(LOCK)
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(ROOT)  # a task may go elsewhere
    return module


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Call dev.py as on a bare machine: without any environment, from elsewhere."""
    command = [sys.executable, str(ROOT / "dev.py"), *arguments]
    return subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False)


def test_without_a_task_all_are_listed() -> None:
    done = call()
    assert done.returncode == 0
    _, tasks, settings = done.stdout.split("\n\n")
    first_words = [line.split()[0] for line in tasks.splitlines()]
    assert first_words == ["demo", "check", "test", "lint", "types", "stubs", "bench", "docs", "lock", "release"]
    assert [line.split()[0].partition("=")[0] for line in settings.splitlines()] == [
        "ADJOINT_ORACLE", "ADJOINT_DOCS", "ADJOINT_NIGHTLY", "ADJOINT_TEST_SEED",
    ]  # fmt: skip


@pytest.mark.parametrize(("arguments", "told"), [
    (["tets"], "there is no task 'tets'"), (["bench", "nothing"], "bench takes one of"),
])  # fmt: skip
def test_unknown_task_or_benchmark_is_refused(arguments: list[str], told: str) -> None:
    done = call(*arguments)
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["-m", "benchmarks.peers"]),
        (["--quick"], ["-m", "benchmarks.peers", "--quick"]),
        (["other", "--quick"], ["-m", "benchmarks.other", "--quick"]),
    ],
)
def test_bench_compares_with_peers_unless_another_is_named(
    arguments: list[str], expected: list[str], dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    folder = dev.ROOT / "benchmarks"
    folder.mkdir()
    for name in ("peers", "other"):
        (folder / f"{name}.py").write_text('if __name__ == "__main__": ...')
    monkeypatch.setattr(dev, "run", lambda what, variables, *, oracle=False: started.append(what))
    monkeypatch.chdir(dev.ROOT)
    dev.bench(arguments)
    assert started == [expected]


def test_environment_made_is_ready_and_finds_the_source(dev: ModuleType) -> None:
    assert not dev.is_ready()
    dev.make()
    assert dev.is_ready()
    program = "import sys; print(*sys.path, sep='\\n')"
    done = subprocess.run([dev.interpreter(), "-c", program], capture_output=True, text=True, check=True)
    assert str(dev.ROOT / "src") in done.stdout.splitlines()


@pytest.mark.parametrize("what", ["lock", "python", "place", "interpreter", "marker"])
def test_environment_is_stale_after_a_change_of(what: str, dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    dev.make()
    assert dev.is_ready()
    match what:
        case "lock":
            dev.LOCK.write_text(LOCK + "# changed\n")
        case "python":
            monkeypatch.setattr(dev.importlib.machinery, "EXTENSION_SUFFIXES", [".cpython-399-other.so"])
        case "place":
            moved = dev.VENV.with_name("moved")
            dev.VENV.rename(moved)
            monkeypatch.setattr(dev, "VENV", moved)
        case "interpreter":
            dev.interpreter().unlink()
        case "marker":
            dev.marker().write_text("")
    assert not dev.is_ready()


def test_environment_with_an_oracle_is_stale_where_none_is_wanted(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev.make()
    for name in (dev.ORACLE, *dev.BESIDE_ORACLE):
        installed = dev.site_packages() / f"{name.replace('==', '-')}.dist-info"
        installed.mkdir()
        (installed / "RECORD").touch()
    monkeypatch.setattr(dev, "oracle_wanted", lambda: True)
    assert dev.is_ready()
    monkeypatch.setattr(dev, "oracle_wanted", lambda: False)
    assert not dev.is_ready()


@pytest.mark.parametrize(("oracle", "folder"), [("1", ".venv-oracle"), ("", ".venv"), (None, ".venv")])
def test_oracle_has_an_environment_of_its_own_even_in_ci(
    oracle: str | None, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.delenv("ADJOINT_ORACLE", raising=False)
    if oracle is not None:
        monkeypatch.setenv("ADJOINT_ORACLE", oracle)
    module = load()
    assert (module.VENV.name, module.oracle_wanted()) == (folder, oracle == "1")


def test_a_call_waits_for_none_that_uses_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    doors = []
    for variable in ("", "ADJOINT_ORACLE", "ADJOINT_DOCS"):
        with monkeypatch.context() as patch:
            patch.delenv("ADJOINT_ORACLE", raising=False)
            patch.delenv("ADJOINT_DOCS", raising=False)
            if variable:
                patch.setenv(variable, "1")
            doors.append(load().DOOR)
    assert len(set(doors)) == 3
    assert all(door.is_dir() for door in doors)


@pytest.mark.parametrize("failing", [None, 3])
def test_nightly_runs_the_long_tests_and_then_ten_orders(
    failing: int | None, dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[tuple[str, str]] = []

    def note(command: list[str], *, env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        started.append((env["ADJOINT_TEST_SEED"], env["ADJOINT_NIGHTLY"]))
        return subprocess.CompletedProcess(command, int(len(started) == failing))

    monkeypatch.setattr(dev, "enter", lambda *, oracle: None)
    monkeypatch.setattr(dev.subprocess, "run", note)
    monkeypatch.setenv("ADJOINT_NIGHTLY", "1")
    monkeypatch.setenv("ADJOINT_TEST_SEED", "7")
    assert dev.test([]) == (failing is not None)
    assert started == [("7", "1"), *((str(seed), "") for seed in range(7, 17))]
    told = capsys.readouterr().out.splitlines()[1:]
    assert [line.endswith("passed") for line in told] == [i + 1 != failing for i in range(11)]
    assert told[2].startswith("ADJOINT_TEST_SEED=8, order 2 of 10: ")


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), subprocess.CalledProcessError(1, ["pip"])])
def test_environment_half_made_is_made_anew(
    interruption: BaseException, dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev.make()
    rest = dev.VENV / "rest"
    rest.touch()

    def interrupt(*arguments: str, seconds: float | None = None) -> None:
        raise interruption

    with monkeypatch.context() as during:
        during.setattr(dev, "call", interrupt)
        with pytest.raises((KeyboardInterrupt, SystemExit)):
            dev.make()
    assert not dev.is_ready()
    assert not rest.exists()
    dev.make()
    assert dev.is_ready()


def test_oracle_that_cannot_be_had_is_only_told(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: str, seconds: float | None = None) -> None:
        raise subprocess.CalledProcessError(1, ["pip"])

    dev.make()
    monkeypatch.setattr(dev, "call", refuse)
    dev.add_oracle()
    assert not dev.has_oracle()
    assert "is not to be had here" in capsys.readouterr().err


@pytest.mark.parametrize("group", LOCKS)
def test_lock_holds_names_versions_and_hashes_only(dev: ModuleType, group: str) -> None:
    assert dev.names_a_place(LOCKS[group]) is None


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://index.example/simple",
        "--find-links wheels",
        "pkg @ https://files.example/pkg-1.0.tar.gz \\",
        "pkg @ file:///srv/pkg-1.0.tar.gz \\",
        "-e ./pkg",
        "    # via -r /srv/pyproject.toml",
    ],
)
def test_place_in_a_lock_is_found(dev: ModuleType, line: str) -> None:
    assert dev.names_a_place(f"{LOCK}{line}\n") == line


@pytest.mark.parametrize("group", LOCKS)
def test_lock_covers_every_direct_dependency(group: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"]
    included = [entry["include-group"] for entry in groups[group] if isinstance(entry, dict)]
    asked = list(project["project"]["dependencies"])
    for name in (group, *included):
        asked += [entry for entry in groups[name] if isinstance(entry, str)]
    locked = set(re.findall(r"^([a-z0-9-]+)==", LOCKS[group], re.MULTILINE))
    assert {"numpy", "llvmlite", "pytest"} <= locked
    assert {re.split(r"[<>=!~ ]", entry)[0] for entry in asked} <= locked


@pytest.mark.parametrize("group", LOCKS)
def test_every_pin_has_a_hash(group: str) -> None:
    pins = re.split(r"^(?=[a-z0-9-]+==)", LOCKS[group], flags=re.MULTILINE)[1:]
    assert len(pins) > 10
    assert [pin.partition(" ")[0] for pin in pins if "--hash=sha256:" not in pin] == []


def pins_on(python: str, text: str) -> dict[str, list[str]]:
    """The versions of each package that a lock has for a version of Python on Linux."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    found: dict[str, list[str]] = {}
    for name, version, marker in re.findall(r"^([a-z0-9-]+)==(\S+)(?: ; (.*?))? \\$", text, re.MULTILINE):
        if not marker or Marker(marker).evaluate(environment):
            found.setdefault(name, []).append(version)
    return found


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14", "3.15"])
def test_locks_agree_and_have_one_version_for_each_python(python: str) -> None:
    dev_pins, docs_pins = (pins_on(python, text) for text in LOCKS.values())
    assert {name for pins in (dev_pins, docs_pins) for name, versions in pins.items() if len(versions) > 1} == set()
    assert {name for name in dev_pins.keys() & docs_pins.keys() if dev_pins[name] != docs_pins[name]} == set()
    assert {"numpy", "llvmlite", "pytest"} <= dev_pins.keys() & docs_pins.keys()


def test_docs_have_an_environment_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJOINT_DOCS", "1")
    assert load().VENV.name == ".venv-docs"
    monkeypatch.delenv("ADJOINT_DOCS")
    monkeypatch.setattr(sys, "argv", ["dev.py", "docs"])
    assert load().LOCK == ROOT / "docs" / "requirements.lock"
    monkeypatch.setattr(sys, "argv", ["dev.py", "test"])
    assert load().LOCK == ROOT / "requirements.lock"


@pytest.mark.parametrize("arguments", [["--ranks", "2"], ["--ranks=4", "--epochs=1"], ["--out", "x"]])
def test_demo_on_ranks_adds_mpi_first(
    arguments: list[str], dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed, started = [], []
    monkeypatch.setattr(dev, "pip", lambda *what, seconds=None: installed.extend(what))
    monkeypatch.setattr(dev, "run", lambda command, variables, oracle=False: started.append(command))
    monkeypatch.setattr(dev, "enter", lambda oracle: None)
    dev.demo(arguments)
    on_ranks = arguments[0] != "--out"
    name = "digits_ranks.py" if on_ranks else "digits.py"
    assert started == [[str(dev.ROOT / "examples" / name), *arguments]]
    assert installed == (list(dev.MPI) if on_ranks else [])


def test_mpi_is_what_the_extra_names() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert [requirement.partition(";")[0].strip() for requirement in extras["mpi"]] == list(load().MPI)
