"""Every task of the project behind one door: `python3 dev.py TASK [arguments]`, with nothing but Python.

The first call makes `.venv` beside this file from requirements.lock; later calls start at once. A `.venv` that was left
half-made, or that was made from another lock, for another Python or in another place, is made anew. Calls may run side
by side: one makes, the others wait. With ADJOINT_ORACLE=1 it is `.venv-oracle`, which has PyTorch too, to compare with;
for `docs`, and with ADJOINT_DOCS=1, it is `.venv-docs`, made from docs/requirements.lock: what builds the site.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this is where an older Python is told so
    sys.exit(f"dev.py: Adjoint needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}")

import os

if os.name != "posix":
    sys.exit("dev.py: the tasks run on Linux and macOS; on Windows, run them under WSL")

import fcntl
import hashlib
import importlib.machinery
import importlib.util
import re
import secrets
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent
IS_DOCS = os.environ.get("ADJOINT_DOCS") == "1" or sys.argv[1:2] == ["docs"]
GROUPS = {ROOT / "requirements.lock": "dev", ROOT / "docs" / "requirements.lock": "docs"}  # of pyproject.toml, by lock
LOCK = list(GROUPS)[IS_DOCS]
VENV = ROOT / (".venv-docs" if IS_DOCS else ".venv-oracle" if os.environ.get("ADJOINT_ORACLE") == "1" else ".venv")
# What is locked while an environment is made: calls that need another one do not wait.
DOOR = ROOT / {".venv-docs": "docs", ".venv-oracle": "src"}.get(VENV.name, "")
ORACLE = "torch==2.13.0"  # tests and benchmarks compare with it; not in the lock, for it is large and nothing needs it
BESIDE_ORACLE = (
    "expecttest==0.3.0",  # which the tables of samples in torch.testing import
    "tensorboard==2.21.0", "pillow==13.0.0",  # with which both libraries write event files
)  # fmt: skip
MPI = ("mpi4py>=4.1", "mpich>=5.0")  # the extra `mpi` of pyproject.toml
SETTINGS = {
    "ADJOINT_ORACLE=1": "test and bench compare with PyTorch too; `test -m oracle` runs only the tests that do",
    "ADJOINT_DOCS=1": "test has what builds the site; `test tests/browser` looks at pages in a browser",
    "ADJOINT_NIGHTLY=1": "test runs the long tests and whole sweeps too, and then all others in ten orders",
    "ADJOINT_TEST_SEED=n": "test repeats the order and the cases of that seed",
}
FOREIGN_VARIABLES = "PYTHONHOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"
NO_TESTS_COLLECTED = 5  # pytest's exit status where no name of `check` fits
ORDERS = 10  # in which a nightly run has the tests once more each
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def main(arguments: list[str]) -> int:
    """Run the task named first."""
    tasks = {
        "demo": demo, "check": check, "test": test, "lint": lint, "types": types, "stubs": stubs, "bench": bench,
        "docs": docs, "lock": lock, "release": release,
    }  # fmt: skip
    name, *rest = arguments or ["help"]
    if name in tasks:
        return tasks[name](rest)
    print("python3 dev.py TASK [arguments]\n")
    for task, function in tasks.items():
        print(f"  {task:<9}{function.__doc__}")
    print()
    for setting, effect in SETTINGS.items():
        print(f"  {setting:<21}{effect}")
    if name in ("help", "-h", "--help"):
        return 0
    print(f"\ndev.py: there is no task {name!r}", file=sys.stderr)
    return 2


def demo(arguments: list[str]) -> NoReturn:
    """Train on scanned digits, and write a page about it; --ranks 2: on two processes; --web: in the page itself."""
    on_ranks = any(argument.partition("=")[0] == "--ranks" for argument in arguments)
    if on_ranks:
        add_mpi()
    program = "digits_ranks.py" if on_ranks else "digits_web.py" if "--web" in arguments else "digits.py"
    run([str(ROOT / "examples" / program), *arguments], os.environ)


def test(arguments: list[str]) -> int:
    """Run the tests, on all cores, in an order of chance; arguments go to pytest."""
    workers = min(os.cpu_count() or 1, 8)
    os.chdir(ROOT)
    command = ["-m", "pytest", "-n", str(workers), *arguments]
    if os.environ.get("ADJOINT_NIGHTLY") != "1":
        run(command, one_thread(), oracle=oracle_wanted())
    return test_nightly(command)


def check(arguments: list[str]) -> int:
    """Run the tests which the change since HEAD reaches, and ruff; `check main` compares with another revision."""
    enter(oracle=oracle_wanted())
    os.chdir(ROOT)
    python = str(interpreter())
    reached = subprocess.run([python, "tools/reach.py", *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if reached.returncode:
        return reached.returncode
    files, narrowed, names = reached.stdout.split("\n")[:3]
    workers = str(min(os.cpu_count() or 1, 8))
    commands = [[python, "-m", "ruff", "check", "--quiet"]]
    commands += [[python, "-m", "pytest", "-q", "-n", workers, *files.split()]]
    if narrowed:
        commands += [[python, "-m", "pytest", "-q", "-n", workers, "-k", names, *narrowed.split()]]
    codes = [
        subprocess.run(command, env=own(one_thread()), close_fds=False, check=False).returncode for command in commands
    ]
    return int(any(code not in (0, NO_TESTS_COLLECTED) for code in codes))


def test_nightly(command: list[str]) -> int:
    """Run all tests with the long ones, then those of every day in ten orders; tell how each run ended."""
    enter(oracle=oracle_wanted())
    first = int(os.environ.get("ADJOINT_TEST_SEED") or secrets.randbelow(10**6))
    runs = [("with the long tests", first, "1")]
    runs += [(f"order {i + 1} of {ORDERS}", first + i, "") for i in range(ORDERS)]
    ends, failed = [], False
    for what, seed, nightly in runs:
        variables = {**one_thread(), "ADJOINT_TEST_SEED": str(seed), "ADJOINT_NIGHTLY": nightly}
        code = subprocess.run([interpreter(), *command], env=own(variables), close_fds=False, check=False).returncode
        ends.append(f"ADJOINT_TEST_SEED={seed}, {what}: {f'FAILED, exit status {code}' if code else 'passed'}")
        failed = failed or code != 0
        say(ends[-1])
    print("", *ends, sep="\n")
    return int(failed)


def lint(arguments: list[str]) -> NoReturn:
    """Check the source with ruff; --fix mends what can be mended."""
    os.chdir(ROOT)
    run(["-m", "ruff", "check", *arguments], os.environ)


def types(arguments: list[str]) -> NoReturn:
    """Check the types with mypy."""
    os.chdir(ROOT)
    run(["-m", "mypy", *arguments], os.environ)


def stubs(arguments: list[str]) -> NoReturn:
    """Write the .pyi files anew, which tell type checkers of names attached at run time; --check only compares."""
    run([str(ROOT / "tools" / "stubs.py"), *arguments], os.environ)


def bench(arguments: list[str]) -> int:
    """Compare every workload with PyTorch and JAX; or run the benchmark named first, one of benchmarks/*.py."""
    programs = [path for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text(encoding="utf-8")]
    known = sorted(path.stem for path in programs)
    name, *rest = arguments if arguments and not arguments[0].startswith("-") else ["peers", *arguments]
    if name in known:
        os.chdir(ROOT)
        run(["-m", f"benchmarks.{name}", *rest], one_thread(), oracle=oracle_wanted())
    say(f"bench takes one of: {', '.join(known) or 'none yet'}")
    return 2


def docs(arguments: list[str]) -> NoReturn:
    """Build the site from README.md, docs/ and all docstrings into site/; --out FOLDER puts it elsewhere."""
    run([str(ROOT / "tools" / "build_site.py"), *arguments], os.environ)


def release(arguments: list[str]) -> NoReturn:
    """Build the package into dist/, check it, and try it in fresh environments; nothing is uploaded."""
    run([str(ROOT / "tools" / "release.py"), *arguments], os.environ)


def lock(arguments: list[str]) -> int:
    """Make the locks anew from pyproject.toml, with uv; --upgrade also takes newer versions."""
    uv = shutil.which("uv")
    if uv is None:
        sys.exit("dev.py: lock needs uv, from `pip install uv`")
    for path, group in GROUPS.items():
        compile_lock(uv, path, group, arguments)
    return 0


def compile_lock(uv: str, path: Path, group: str, arguments: list[str]) -> None:
    """Make one lock from a group of pyproject.toml; where that fails the lock is as it was."""
    draft, name = path.with_suffix(".lock-draft"), path.relative_to(ROOT)
    if path.exists():
        shutil.copy(path, draft)  # uv keeps the versions that it finds here
    # One version of a package for every Python and system, so that all test the same: but where the group `pythons` of
    # pyproject.toml asks for another, as there is no wheel.
    every = ["--universal", "--python-version", "3.11", "--fork-strategy", "fewest"]
    plain = ["--quiet", "--generate-hashes", "--no-header", "--no-emit-index-url", "--no-emit-find-links"]
    command = [uv, "pip", "compile", "pyproject.toml", "--group", group, *every, *plain, *arguments]
    try:
        if subprocess.run([*command, "--output-file", str(draft)], cwd=ROOT, check=False).returncode:
            sys.exit(f"dev.py: uv made no lock; {name} is as it was")
        text = "# Made from pyproject.toml by `python3 dev.py lock`.\n" + draft.read_text()
        if place := names_a_place(text):
            sys.exit(f"dev.py: the new lock names a place: {place!r}; {name} is as it was")
        draft.write_text(text)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def names_a_place(text: str) -> str | None:
    """Return the first line of a lock that is not made of names, versions and hashes alone: an address, say."""
    requirement = r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+( ; [^/\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?"
    remark = r"\s*#[^/\\]*"
    return next((line for line in text.splitlines() if not re.fullmatch(f"{requirement}|{remark}|", line)), None)


def run(arguments: list[str], variables: Mapping[str, str], *, oracle: bool = False) -> NoReturn:
    """Become the Python of `.venv`."""
    enter(oracle=oracle)
    sys.stdout.flush()
    os.execve(interpreter(), [str(interpreter()), *arguments], own(variables))


def enter(*, oracle: bool) -> None:
    """Make `.venv` first if need be, and see that it is not remade while this process uses it."""
    door = os.open(DOOR, os.O_RDONLY)
    os.set_inheritable(door, True)  # what this process becomes or starts holds the door too, even if this one is killed
    hold(door, fcntl.LOCK_SH)
    if not is_ready() or (oracle and not has_oracle()):
        hold(door, fcntl.LOCK_EX)
        if not is_ready():
            make()
        if oracle and not has_oracle():
            add_oracle()
        hold(door, fcntl.LOCK_SH)


def hold(door: int, how: int) -> None:
    """Hold `door` shared, to use `.venv`, or exclusively, to make it; waits for those who hold it otherwise."""
    try:
        fcntl.flock(door, how | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"waiting for another call, which uses or makes {VENV.name}")
        fcntl.flock(door, how)


def is_ready() -> bool:
    """Tell whether `.venv` is whole, made for this lock, this Python and this place, and without an unwanted oracle."""
    if has_oracle() and not oracle_wanted():
        return False
    try:
        return marker().read_text() == fingerprint() and interpreter().exists()
    except (FileNotFoundError, NotADirectoryError):
        return False


def make() -> None:
    """Make `.venv`; the marker, written last, tells that it is whole."""
    if any(importlib.util.find_spec(name) is None for name in ("venv", "ensurepip")):
        missing = f"dev.py: {sys.executable} comes without the module venv or ensurepip"
        sys.exit(f"{missing}; on Debian and Ubuntu, `apt install python3-venv` adds both")
    import venv

    say(f"making {VENV.name} from {LOCK.relative_to(ROOT)}, once; this takes a minute or two")
    marker().unlink(missing_ok=True)
    try:
        venv.EnvBuilder(clear=True, symlinks=True).create(VENV)
        call("ensurepip", "--default-pip")
        pip("--require-hashes", "-r", str(LOCK))
    except subprocess.CalledProcessError as error:
        sys.exit(f"dev.py: .venv could not be made: {error}\nThe next call begins anew.")
    # A line in a .pth file puts src/ on the path: an editable install without a build.
    (site_packages() / "adjoint.pth").write_text(os.path.relpath(ROOT / "src", site_packages()) + "\n")
    draft = marker().with_suffix(".draft")
    draft.write_text(fingerprint())
    draft.replace(marker())


def add_oracle() -> None:
    """Install the oracle in `.venv`, where it can be had."""
    say(f"adding {ORACLE} to .venv, to compare with")
    try:
        pip(ORACLE, *BESIDE_ORACLE, seconds=900)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        say(f"{ORACLE} is not to be had here; the tests which compare with it will be skipped")


def add_mpi() -> None:
    """Install the extra `mpi` in `.venv`, unless the lock has brought it."""
    enter(oracle=False)
    if not any(site_packages().glob("mpi4py-*.dist-info/RECORD")) or not (interpreter().parent / "mpiexec").exists():
        say("adding MPI to .venv, by which processes exchange tensors")
        pip(*MPI)


def pip(*what: str, seconds: float | None = None) -> None:
    """Install `what` in `.venv`."""
    call("pip", "install", "-qq", "--no-input", "--disable-pip-version-check", *what, seconds=seconds)


def call(module: str, *arguments: str, seconds: float | None = None) -> None:
    """Run a module by the Python of `.venv`; raises where it fails or takes longer than `seconds`."""
    command = [str(interpreter()), "-m", module, *arguments]
    log = subprocess.DEVNULL if module == "ensurepip" else sys.stderr
    subprocess.run(command, env=own(os.environ), stdout=log, timeout=seconds, close_fds=False, check=True)


def oracle_wanted() -> bool:
    """Tell whether this run is to compare with PyTorch."""
    return VENV.name == ".venv-oracle"


def has_oracle() -> bool:
    """Tell whether the oracle, and what its samples need, is in `.venv`: pip writes RECORD last."""
    wanted = (what.partition("==")[0] for what in (ORACLE, *BESIDE_ORACLE))
    return all(any(site_packages().glob(f"{name}-*.dist-info/RECORD")) for name in wanted)


def fingerprint() -> str:
    """Return what `.venv` depends on: the lock, the Python and its ABI, and the place, which its scripts name."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    return f"{digest} {importlib.machinery.EXTENSION_SUFFIXES[0]} {VENV}"


def marker() -> Path:
    """Return the file whose presence tells that `.venv` is whole."""
    return VENV / "made-from"


def interpreter() -> Path:
    """Return the Python of `.venv`."""
    return VENV / "bin" / "python"


def site_packages() -> Path:
    """Return where `.venv` keeps packages."""
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(VENV), "platbase": str(VENV)}))


def one_thread() -> dict[str, str]:
    """Return the environment with numeric libraries held to one thread: workers share the cores, benchmarks compare."""
    return {**os.environ, **dict.fromkeys(THREADS, "1")}


def own(variables: Mapping[str, str]) -> dict[str, str]:
    """Return `variables` without those that let another Python's packages in, or keep no bytecode.

    Without bytecode each process that a test starts compiles the library anew, which takes longer than most tests.
    """
    return {name: value for name, value in variables.items() if name not in FOREIGN_VARIABLES}


def say(message: str) -> None:
    """Tell the user what goes on, beside the task's own output."""
    print(f"dev.py: {message}", file=sys.stderr, flush=True)


def know_thyself() -> None:
    """Start again with a PATH where there is none: a Python started by its bare name cannot tell its place without."""
    if not os.environ.get("PATH"):
        os.environ["PATH"] = os.defpath
        if not sys.executable:
            os.execvp(sys.orig_argv[0], sys.orig_argv)


if __name__ == "__main__":
    know_thyself()
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
