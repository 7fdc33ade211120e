"""Files of programs that raise an error, with what is to be told of each, and how such a program is run.

A program stands under `=== name`; the line to blame ends in `# <--`; what is told follows after a key, such as `try:`.
Further files of a program stand under `--- file.py`.
"""

from __future__ import annotations

import io
import re
import sys
import warnings
from contextlib import ExitStack, redirect_stdout
from math import inf
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import adjoint as ad
from adjoint.diagnosis.causes import computing
from adjoint.diagnosis.error_explanation import add_uncaught_explanation
from adjoint.diagnosis.remedies.trials import changed_lines
from adjoint.diagnosis.repairs import trial

MARK = "  # <--"
TIME_LIMITS = ((computing, "MAX_SECONDS"), (changed_lines, "MAX_SECONDS"), (trial, "MIN_SECONDS"))


def read_programs(path: Path, key: str) -> list[tuple[str, str, str]]:
    """Return the name of each program of a file, its text, and what is told of it."""
    found = []
    for text in path.read_text(encoding="utf-8").split("=== ")[1:]:
        match = re.fullmatch(rf"(\w+)\n(.*?){key}: ?(.*?)\n*", text, re.DOTALL)
        assert match is not None, text
        found.append((match[1], match[2], match[3]))
    return found


def write_told(path: Path, name: str, key: str, told: str) -> None:
    """Put what is told of a program into its file."""
    text = path.read_text(encoding="utf-8")
    head, rest = text.split(f"=== {name}\n", 1)
    body, _, following = rest.partition("=== ")
    body = body.rsplit(f"{key}:", 1)[0] + f"{key}: {told}\n"
    path.write_text(f"{head}=== {name}\n{body}{'=== ' if following else ''}{following}", encoding="utf-8")


def find_marked_line(program: str) -> int:
    """Return the number of the line to blame."""
    return next(i for i, line in enumerate(program.split("\n"), 1) if MARK in line)


def find_marked_place(program: str, name: str) -> str:
    """Return the file and the line to blame of a program that may have several files."""
    for file, text in split_files(program, f"{name}.py").items():
        if MARK in text:
            return f"{file}:{find_marked_line(text)}"
    raise AssertionError(f"no line of {name} is marked")


def split_files(program: str, main: str) -> dict[str, str]:
    """Return the texts of a program's files by their names, the main one first."""
    parts = re.split(r"^--- (\S+)\n", program, flags=re.MULTILINE)
    return {main: parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def find_told(notes: str, key: str) -> str:
    """Return what the first line under a key tells; empty without one."""
    return next((line.removeprefix(f"{key}: ") for line in notes.split("\n") if line.startswith(f"{key}: ")), "")


def run_program(text: str, path: Path) -> BaseException | None:
    """Return the error that ends a program, explained as one that nothing has caught."""
    files = split_files(text, path.name)
    text = files[path.name]
    for name, each in files.items():
        path.with_name(name).write_text(each, encoding="utf-8")
    ad.manual_seed(0)
    program = sys.modules["program"] = ModuleType("program")  # where classes are looked up by name, as in a script
    program.__file__ = str(path)
    with redirect_stdout(io.StringIO()), warnings.catch_warnings(), ExitStack() as stack:
        warnings.simplefilter("ignore")
        for module, limit in TIME_LIMITS:  # which a collection of garbage may use up, in a process of many tests
            stack.enter_context(patch.object(module, limit, inf))
        try:
            exec(compile(text, str(path), "exec"), vars(program))
        except Exception as error:  # noqa: BLE001  the programs raise errors of all kinds
            add_uncaught_explanation(error, error.__traceback__)
            return error
        finally:
            del sys.modules["program"]
    return None
