"""Run a program of some lines with `python -m adjoint.run`, in a new interpreter, and tell what became of it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

SOURCE = Path(__file__).parents[2] / "src"
PATHS = [str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
# Warnings are errors, but for Python's about a fork beside threads: 3.15 raises it, older ones print it and go on.
STRICT = ("-W", "error", "-W", "ignore:This process (pid=:DeprecationWarning")


@dataclass(frozen=True)
class Done:
    """How a program ended, and what it wrote."""

    status: int
    out: str
    error: str


def run(folder: Path, *arguments: str, **files: str) -> Done:
    """What `python -m adjoint.run arguments…` does in `folder`, where `name="text"` makes the file name.py."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text), encoding="utf-8")
    return start(folder, "-m", "adjoint.run", *arguments)


def start(folder: Path, *arguments: str) -> Done:
    """What `python arguments…` does in `folder`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *STRICT, *arguments]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout.strip(), done.stderr.strip())


def output_of(program: str, *, strict: bool = True, **environment: str) -> str:
    """What a program prints in a new interpreter that finds this tree; an error, a warning if `strict`, a hang fail."""
    command = [sys.executable, *(STRICT if strict else ()), "-c", dedent(program)]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS), **environment}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
