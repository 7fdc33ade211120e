"""Third-party packages under both libraries: `python3 tools/packages.py` runs each program below examples/packages.

A program names what it needs in a line `# requires: NAME==VERSION …`. It runs in an environment with these packages and
PyTorch, first as it is, then by `python -m adjoint.run`; the lines that it prints are compared. The results go into
docs/packages.json, and from there into the tables of docs/packages.md and README.md. `--only NAME …` runs some of the
programs, `--list` names them, `--tables` only writes the tables. The programs of a folder share an environment in
.venv-packages; one whose packages agree with no others has `# requires apart:`. Environments are made by uv, which
links the files that several of them have.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "examples" / "packages"
ENVIRONMENTS = ROOT / ".venv-packages"
RESULTS = ROOT / "docs" / "packages.json"
ORACLE = "torch==2.13.0"
NEEDED = ("numpy>=2.0", "llvmlite>=0.45", "ml-dtypes>=0.5")  # by Adjoint itself, which is taken from src/
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# Names that a program could inherit and that would change what it does or prints.
CLEARED = ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "ADJOINT_LOG")
LIMIT_SECONDS = 600
REPEATED_BELOW_SECONDS = 12  # a program that takes longer is run once
REPEATS = 3
MARKS = ("<!-- packages: written by tools/packages.py -->", "<!-- end of packages -->")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
SAME, LAST_DIGIT, DIFFERS, FAILS = "same", "last digit", "differs", "fails"

# Why a program prints other numbers, or does not run: stated in the table beside it.
REASONS = {
    "tensordict_rollout": "it calls functorch's C++ interface, `torch._C._functorch`, as it is imported",
}


@dataclass(frozen=True)
class Program:
    """A program of a package's user: its file, what it does, and the packages that it needs, its own first."""

    path: Path
    title: str
    requirements: tuple[str, ...]
    apart: bool = False

    @property
    def name(self) -> str:
        """Its name for `--only`."""
        return self.path.stem

    @property
    def group(self) -> str:
        """The folder that it lies in."""
        return self.path.parent.name

    @property
    def packages(self) -> tuple[tuple[str, str], ...]:
        """Names and versions of what it needs."""
        return tuple((name, version) for name, _, version in (each.partition("==") for each in self.requirements))

    @property
    def environment(self) -> Path:
        """The folder of its environment."""
        return ENVIRONMENTS / (self.name if self.apart else self.group)


@dataclass(frozen=True)
class Run:
    """What a run printed, its exit status, and how long it took in seconds, by the clock and of the processor."""

    status: int
    out: str
    error: str
    wall: float
    cpu: float


@dataclass(frozen=True)
class Comparison:
    """How the numbers that two runs printed compare: how many there are, how many are equal, and the verdict."""

    verdict: str
    numbers: int
    equal: int


class Result(TypedDict):
    """A program's last result, as docs/packages.json has it."""

    verdict: str
    numbers: int
    equal: int
    error: str
    wall: dict[str, float]
    cpu: dict[str, float]


# ── programs ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def find_programs(names: Iterable[str] = ()) -> list[Program]:
    """Return the programs with these names, or all; raises ValueError for a name that there is not."""
    programs = [read_program(path) for path in sorted(PROGRAMS.glob("*/*.py"))]
    wanted = set(names)
    if unknown := wanted - {program.name for program in programs}:
        raise ValueError(f"there is no program {', '.join(sorted(unknown))} below {PROGRAMS.relative_to(ROOT)}")
    return [program for program in programs if not wanted or program.name in wanted]


def read_program(path: Path) -> Program:
    """Read a program's title, which is its docstring, and its line of requirements, all of them pinned."""
    text = path.read_text(encoding="utf-8")
    title = ast.get_docstring(ast.parse(text))
    lines: list[tuple[str, str]] = re.findall(r"^# requires( apart)?: (.+)$", text, re.MULTILINE)
    if not title or "\n" in title or len(lines) != 1:
        raise ValueError(f"{path.name} needs a docstring of one line, and one line `# requires: NAME==VERSION …`")
    apart, requirements = bool(lines[0][0]), tuple(lines[0][1].split())
    if loose := [each for each in requirements if not re.fullmatch(r"[\w.-]+(\[[\w,]+\])?==[\w.+!]+", each)]:
        raise ValueError(f"{path.name} requires {', '.join(loose)}, without a version")
    return Program(path, title, requirements, apart)


def make_environment(program: Program) -> Path:
    """Return the Python of the program's environment, which is made, or added to, where it lacks what is needed."""
    folder = program.environment
    python, marker = folder / "bin" / "python", folder / "installed"
    installed = marker.read_text(encoding="utf-8").split() if marker.exists() else []
    if not {*program.requirements} <= {*installed}:
        uv = shutil.which("uv")
        if uv is None:
            raise RuntimeError("environments are made by uv, from `pip install uv`")
        if not installed:
            subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
        beside = [other for other in find_programs() if other.environment == folder]
        wanted = sorted({requirement for other in beside for requirement in other.requirements})
        what = [ORACLE, *NEEDED, *wanted]
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *what], check=True)
        marker.write_text(" ".join(wanted), encoding="utf-8")
    return python


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_program(program: Program, python: Path, library: str) -> Run:
    """Run a program under `torch` or under `adjoint`, in an empty folder and on one thread."""
    start = [python, "-m", "adjoint.run"] if library == "adjoint" else [python]
    variables = {name: value for name, value in os.environ.items() if name not in CLEARED} | ONE_THREAD
    variables |= {"PYTHONHASHSEED": "0", "MPLBACKEND": "Agg", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    if library == "adjoint":
        variables["PYTHONPATH"] = str(ROOT / "src")
    with tempfile.TemporaryDirectory() as folder:
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        try:
            done = subprocess.run(
                [*start, program.path], cwd=folder, env=variables, capture_output=True, encoding="utf-8",
                stdin=subprocess.DEVNULL, timeout=LIMIT_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Run(-1, "", f"TimeoutError: it ran for more than {LIMIT_SECONDS} s", LIMIT_SECONDS, LIMIT_SECONDS)
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(done.returncode, done.stdout, done.stderr, wall, cpu)


def try_program(program: Program, *, repeats: int = REPEATS) -> Result:
    """Run a program under both libraries, short ones `repeats` times, and compare what it prints."""
    python = make_environment(program)
    runs: dict[str, list[Run]] = {"torch": [], "adjoint": []}
    for turn in range(repeats):
        for library, done in runs.items():
            done.append(run_program(program, python, library))
            if done[-1].status and library == "torch":
                raise RuntimeError(f"{program.name} fails under PyTorch:\n{done[-1].error}")
        if turn == 0 and (runs["adjoint"][0].status or any(x[0].wall > REPEATED_BELOW_SECONDS for x in runs.values())):
            break
    if len({each.out for each in runs["torch"]}) > 1:
        raise RuntimeError(f"{program.name} prints something else each time")
    compared = compare_output(runs["torch"][0], runs["adjoint"][0])
    wall, cpu = (
        {library: round(statistics.median(getattr(each, clock) for each in done), 2) for library, done in runs.items()}
        for clock in ("wall", "cpu")
    )
    return {
        "verdict": compared.verdict, "numbers": compared.numbers, "equal": compared.equal,
        "error": last_line(runs["adjoint"][0].error) if compared.verdict == FAILS else "", "wall": wall, "cpu": cpu,
    }  # fmt: skip


def compare_output(expected: Run, actual: Run) -> Comparison:
    """Compare what two runs printed, line by line.

    The verdict is `same` where all is equal, `last digit` where numbers differ by one unit of their last printed digit
    at most, `fails` for an exit status other than 0, and `differs` for all else.
    """
    wanted, found = NUMBER.findall(expected.out), NUMBER.findall(actual.out)
    equal = sum(a == b for a, b in zip(wanted, found, strict=False))
    if actual.status:
        verdict = FAILS
    elif expected.out.rstrip() == actual.out.rstrip():
        verdict = SAME
    elif NUMBER.sub("#", expected.out) == NUMBER.sub("#", actual.out) and all(map(is_near, wanted, found)):
        verdict = LAST_DIGIT
    else:
        verdict = DIFFERS
    return Comparison(verdict, len(wanted), equal)


def is_near(expected: str, actual: str) -> bool:
    """True if two numbers differ by at most one unit of the last digit that both print; integers must be equal."""
    if expected.lstrip("-").isdigit() and actual.lstrip("-").isdigit():
        return expected == actual
    numbers = Decimal(expected), Decimal(actual)
    exponents = [exponent for number in numbers if isinstance(exponent := number.as_tuple().exponent, int)]
    return abs(numbers[0] - numbers[1]) <= Decimal(1).scaleb(max(exponents))


def last_line(text: str) -> str:
    """Return the last line of a traceback that tells the error, without paths."""
    lines = [line for line in text.splitlines() if re.match(r"[\w.]+(Error|Exception|Warning|Exit|Interrupt)\b", line)]
    return re.sub(r"[^\s('\"]*/(?=[\w.-]+\.py)", "", lines[-1] if lines else text.strip().rpartition("\n")[2])[:200]


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def make_table(programs: Sequence[Program], results: Mapping[str, Result]) -> str:
    """Return the table of docs/packages.md: a row for each program that has a result."""
    rows = ["| package | program | numbers | PyTorch | Adjoint |", "| --- | --- | --- | --- | --- |"]
    for program in programs:
        if result := results.get(program.name):
            packages = ", ".join(f"{name} {version}" for name, version in program.packages)
            link = f"[{program.title.rstrip('.')}](../{program.path.relative_to(ROOT)})"
            seconds = (f"{result['cpu'][library]:.1f} s" for library in ("torch", "adjoint"))
            rows.append(f"| {' | '.join([packages, link, describe_result(program, result), *seconds])} |")
    return "\n".join(rows)


def describe_result(program: Program, result: Result) -> str:
    """Return how a program's numbers compare, and why they differ where that is known."""
    reason = REASONS.get(program.name) or result["error"]
    count = f"{result['equal']} of {result['numbers']}"
    text = {
        SAME: f"all {result['numbers']} the same",
        LAST_DIGIT: f"{count} the same, the others within one unit of the last digit",
        DIFFERS: f"differs: {count} the same",
        FAILS: "does not run",
    }[result["verdict"]]
    return f"{text}; {reason}" if reason and result["verdict"] != SAME else text


def make_summary(programs: Sequence[Program], results: Mapping[str, Result]) -> str:
    """Return the short table of README.md: a row for each group, with the packages whose programs run."""
    rows = ["| field | packages |", "| --- | --- |"]
    tried = [program for program in programs if program.name in results]
    for group in dict.fromkeys(program.group for program in tried):
        own = [program for program in tried if program.group == group]
        names = dict.fromkeys(program.packages[0] for program in own if results[program.name]["verdict"] != FAILS)
        rows.append(f"| {group} | {', '.join(f'{name} {version}' for name, version in names)} |")
    counts = {verdict: sum(results[program.name]["verdict"] == verdict for program in tried) for verdict in SENTENCES}
    packages = {program.packages[0][0] for program in tried}
    told = [f"{count} {SENTENCES[verdict]}" for verdict, count in counts.items() if count]
    return "\n".join([f"{len(tried)} programs of {len(packages)} packages: {', '.join(told)}.", "", *rows])


SENTENCES = {
    SAME: "print PyTorch's numbers to the last digit",
    LAST_DIGIT: "differ by one in a last digit",
    DIFFERS: "differ by more",
    FAILS: "cannot run",
}  # the verdicts, in the order of the summary


def write_between_marks(page: Path, text: str) -> None:
    """Put `text` between the marks of a page; raises ValueError where it has none."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not end:
        raise ValueError(f"{page.name} has no lines {MARKS[0]} and {MARKS[1]}")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def read_results() -> dict[str, Result]:
    """Return the results of the last runs, by program."""
    results: dict[str, Result] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return results


def write_tables(results: Mapping[str, Result]) -> None:
    """Write docs/packages.json and both tables."""
    programs = find_programs()
    kept = {program.name: results[program.name] for program in programs if program.name in results}
    lines = (f"{json.dumps(name)}: {json.dumps(result)}" for name, result in sorted(kept.items()))
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    write_between_marks(ROOT / "docs" / "packages.md", make_table(programs, kept))
    write_between_marks(ROOT / "README.md", make_summary(programs, kept))


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Run programs and write the tables; return 1 if a program could not be tried."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="names of programs, without .py")
    parser.add_argument("--list", action="store_true", help="name the programs and what they need")
    parser.add_argument("--tables", action="store_true", help="write the tables from the last results")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="runs of a short program; the median counts")
    options = parser.parse_args(arguments)
    programs = find_programs(options.only)
    if options.list:
        for program in programs:
            say(f"{program.group}/{program.name}: {' '.join(program.requirements)}")
        return 0
    results, failed = read_results(), False
    for program in [] if options.tables else programs:
        try:
            result = results[program.name] = try_program(program, repeats=options.repeats)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            say(f"{program.name}: {error}")
            failed = True
            continue
        seconds = f"{result['wall']['torch']} s and {result['wall']['adjoint']} s"
        say(f"{program.name}: {describe_result(program, result)}; {seconds}")
        write_tables(results)
    write_tables(results)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
