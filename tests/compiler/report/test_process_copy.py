"""A function in a copy of the process: its result or its error comes back, and nothing else."""

from __future__ import annotations

import os
import sys

import pytest

from adjoint.compiler.report.process_copy import ProcessCopyError, call_in_copy

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no copies of processes here")


def test_the_result_comes_back_and_what_was_written_and_printed_does_not(capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[int] = []

    def work() -> tuple[int, bytes]:
        seen.append(1)
        sys.stdout.write("lost")
        sys.stderr.write("lost")
        os.write(1, b"lost")
        return len(seen), b"x" * 1_000_000

    assert call_in_copy(work) == (1, b"x" * 1_000_000)
    assert seen == []
    assert capfd.readouterr() == ("", "")


def fail() -> None:
    raise KeyError("what")


def end() -> None:
    os._exit(3)


@pytest.mark.parametrize(
    ("function", "message"),
    [(fail, "KeyError: 'what'"), (end, "did not answer"), (lambda: lambda: 0, "local object")],
)
def test_what_goes_wrong_there_is_told_here(function: object, message: str) -> None:
    with pytest.raises(ProcessCopyError, match=message):
        call_in_copy(function)  # type: ignore[arg-type]


def test_a_system_without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    with pytest.raises(ProcessCopyError, match="cannot copy a process"):
        call_in_copy(lambda: 1)
