"""Other Pythons: `python3 tools/pythons.py` gets each version that the package names, and runs tests on it.

A version is taken from the PATH, else from pyenv, else out of a Debian system that debootstrap makes (on Linux, as
root). Each has an environment with the packages of requirements.lock, in .venv-pythons: made once, and anew for another
lock. `python3 tools/pythons.py 3.14 3.15` names versions; `--tests PATH …` other tests than those that a Python may
break, which are the frame observer's, the native runtime's, what compiled steps do, and a sample of the rest; `--only
get` stops before the tests. The exit status is 1 where a test failed, and 2 where a version was not to be had.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".venv-pythons"
LOCK = ROOT / "requirements.lock"
SUITES = {"3.13": "trixie", "3.14": "sid", "3.15": "sid"}  # of Debian, which have a version
TESTS = (
    "tests/compiler/trace", "tests/compiler/runtime", "tests/integration", "tests/robustness", "tests/core/tensor",
    "tests/autograd/engine", "tests/nn/module", "tests/optim", "tests/compiler/test_compile_turns.py",
)  # fmt: skip
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
CLEARED = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "ADJOINT_CACHE_DIR", "ADJOINT_NIGHTLY", "ADJOINT_ORACLE")
NOT_INSTALLED = {"mypy", "ruff"}  # what looks at the source, which does so on one Python
# Within a system that debootstrap made: this repository under its own path, the trust in certificates of this machine.
ENTER = """
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mkdir -p "$1$2" "$1/etc/ssl/certs" &&
mount --bind "$2" "$1$2" && { [ ! -d /etc/ssl/certs ] || mount --bind /etc/ssl/certs "$1/etc/ssl/certs"; } &&
cp /etc/resolv.conf "$1/etc/resolv.conf" && system=$1 && shift && cd / &&
exec chroot "$system" sh -c 'cd "$1" && shift && exec "$@"' sh "$@"
"""


class NotToBeHad(Exception):
    """A version of Python that this machine cannot get, and why."""


@dataclass(frozen=True)
class Interpreter:
    """A Python: its command, the system that it runs in where that is not this one, and its environment's folder."""

    version: str
    command: str
    environment: Path
    system: Path | None = None

    @property
    def python(self) -> str:
        """The Python of the environment."""
        return str(self.environment / "bin" / "python")

    def run(self, *command: str, quiet: bool = False) -> int:
        """Run a command where this Python is, and return its exit status."""
        variables = {name: value for name, value in os.environ.items() if name not in CLEARED} | ONE_THREAD
        entered: list[str] = []
        if self.system is not None:
            entered = ["unshare", "--mount", "sh", "-c", ENTER, "sh", str(self.system), str(ROOT)]
            variables |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}
        out = subprocess.DEVNULL if quiet else None
        return subprocess.run([*entered, *command], cwd=ROOT, env=variables, stdout=out, check=False).returncode


def read_versions() -> list[str]:
    """Return the versions of Python that pyproject.toml names, but for the one that runs this."""
    named = re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [version for version in named if version != "{}.{}".format(*sys.version_info)]


def find_interpreter(version: str) -> Interpreter:
    """Find a version of Python on this machine, or get it; NotToBeHad if that cannot be."""
    environment = ENVIRONMENTS / version
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    builds = sorted(pyenv.glob(f"{version}.*"), key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)])
    candidates = [shutil.which(f"python{version}"), *(str(path / "bin" / "python") for path in reversed(builds))]
    for command in candidates:
        if command is not None and runs(command, version):
            return Interpreter(version, command, environment)
    system = ENVIRONMENTS / f"debian-{version}"
    if not system.exists():
        make_system(version, system)
    return Interpreter(version, f"/usr/bin/python{version}", environment, system)


def runs(command: str, version: str) -> bool:
    """Tell whether a command is this version, with the modules that make environments; a shim of pyenv may not be."""
    asked = "import sys, venv, ensurepip; print('{}.{}'.format(*sys.version_info))"
    try:
        answer = subprocess.run([command, "-c", asked], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return answer.returncode == 0 and answer.stdout.strip() == version


def make_system(version: str, system: Path) -> None:
    """Make a Debian system with a version of Python in a folder, whole or not at all."""
    if version not in SUITES:
        raise NotToBeHad(f"neither on the PATH nor in pyenv, and no suite of Debian is known to have Python {version}")
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise NotToBeHad("neither on the PATH nor in pyenv; debootstrap, as root, would get it from Debian")
    draft = system.with_suffix(f"{system.suffix}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    packages = f"--include=python{version},python{version}-venv,ca-certificates"
    command = ["debootstrap", "--variant=minbase", packages, SUITES[version], str(draft)]
    with (ENVIRONMENTS / f"debian-{version}.log").open("w") as log:
        code = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
    if code:
        raise NotToBeHad(f"debootstrap failed; {log.name} tells why")
    draft.rename(system)


def make_environment(interpreter: Interpreter) -> None:
    """Make the environment of a Python with the packages of the lock, unless it is there; NotToBeHad if that fails."""
    folder, pins = interpreter.environment, select_pins(LOCK.read_text(encoding="utf-8"))
    marker = folder / "made-from"
    if marker.exists() and marker.read_text() == fingerprint(pins):
        return
    shutil.rmtree(folder, ignore_errors=True)
    ENVIRONMENTS.mkdir(exist_ok=True)
    if interpreter.run(interpreter.command, "-m", "venv", str(folder)):
        raise NotToBeHad(f"{interpreter.command} makes no environment")
    chosen = folder / "requirements.lock"
    chosen.write_text(pins, encoding="utf-8")
    options = ("-q", "--no-input", "--disable-pip-version-check", "--only-binary", ":all:", "--require-hashes")
    if interpreter.run(interpreter.python, "-m", "pip", "install", *options, "-r", str(chosen), quiet=True):
        raise NotToBeHad("the packages of requirements.lock cannot be installed, or have no wheels for it")
    places = folder / "lib" / f"python{interpreter.version}" / "site-packages"
    (places / "adjoint.pth").write_text(f"{ROOT / 'src'}\n", encoding="utf-8")
    marker.write_text(fingerprint(pins))


def select_pins(lock: str) -> str:
    """Return a lock without the packages that no test needs."""
    pins = re.split(r"^(?=[A-Za-z0-9._-]+==)", lock, flags=re.MULTILINE)
    return "".join(pin for pin in pins if pin.partition("==")[0] not in NOT_INSTALLED)


def fingerprint(pins: str) -> str:
    """Return what tells a lock from another."""
    return hashlib.sha256(pins.encode()).hexdigest()


def run_tests(interpreter: Interpreter, tests: Sequence[str]) -> bool:
    """Run tests on a Python, and tell whether all passed."""
    say(f"Python {interpreter.version}: {' '.join(tests)}")
    return interpreter.run(interpreter.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests) == 0


def say(message: str) -> None:
    """Tell the user what goes on, beside the tests' own output."""
    print(f"pythons.py: {message}", file=sys.stderr, flush=True)  # noqa: T201


def main(arguments: Sequence[str] | None = None) -> int:
    """Get the versions that are asked for, and run the tests on each; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="such as 3.14; all of pyproject.toml without")
    parser.add_argument("--tests", nargs="+", default=TESTS, metavar="PATH", help="what pytest runs")
    parser.add_argument("--only", choices=["get"], help="get the versions, and run nothing")
    options = parser.parse_args(arguments)
    status = 0
    for version in options.versions or read_versions():
        try:
            interpreter = find_interpreter(version)
            make_environment(interpreter)
        except NotToBeHad as reason:
            say(f"Python {version} is not to be had here: {reason}")
            status = status or 2
            continue
        if options.only is None:
            passed = run_tests(interpreter, options.tests)
            say(f"Python {version}: {'passed' if passed else 'FAILED'}")
            status = status if passed else 1
    return status


if __name__ == "__main__":
    sys.exit(main())
