"""The progress of a compilation: shown after a second, on a terminal or where the log is asked for, and never else."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

import adjoint as ad
from adjoint.compiler import build, pipeline, step_compiler
from adjoint.compiler import progress as module
from adjoint.compiler.cache import plan_cache
from adjoint.compiler.program import buffer_binding
from adjoint.compiler.progress import ERASE_LINE, Progress
from adjoint.compiler.trace import tracer

pytest.importorskip("llvmlite")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ticking(seconds: float) -> Callable[[], float]:
    """A clock that goes on by so much whenever somebody looks at it."""
    now = [0.0]

    def clock() -> float:
        now[0] += seconds
        return now[0]

    return clock


def compile_step(monkeypatch: pytest.MonkeyPatch, progress: Progress, count: int = 300) -> None:
    """Compile a step of some equations whose progress is told to `progress`."""
    monkeypatch.setattr(plan_cache, "default_disk_cache", lambda: None)
    for user in (build, buffer_binding, pipeline, step_compiler, tracer):
        monkeypatch.setattr(user, "progress", progress)

    def step(x: ad.Tensor) -> ad.Tensor:
        for _ in range(count):
            x = x.sin()
        return x

    ad.compile(step)(ad.ones(3))


def test_a_long_compilation_tells_where_the_time_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setenv("COLUMNS", "200")
    compile_step(monkeypatch, Progress(ticking(0.5), screen))
    shown = screen.getvalue().split(ERASE_LINE)[1:]
    assert all(line.startswith("[adjoint compile] step: ") for line in shown)
    text = "".join(shown)
    for expected in ("256 equations traced", "300 equations traced in ", "; planning: fuse", "kernels planned in ",
                     "; 0 of ", " different ones compiled in "):  # fmt: skip
        assert expected in text
    assert shown[-1].endswith(" s until its first call\n")
    assert text.count("\n") == 1


def test_a_short_compilation_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    compile_step(monkeypatch, Progress(ticking(0.001), screen))
    assert screen.getvalue() == ""


def test_what_is_no_terminal_is_written_to_only_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    compile_step(monkeypatch, Progress(ticking(0.5), file))
    assert file.getvalue() == ""
    monkeypatch.setattr(module, "LOGGED", frozenset({"compile"}))
    compile_step(monkeypatch, Progress(ticking(0.5), file))
    lines = file.getvalue().splitlines()
    assert len(lines) > 3
    assert all(line.startswith("[adjoint compile] step: ") for line in lines)
    assert "\r" not in file.getvalue()


def test_a_line_that_is_erased_fits_into_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setenv("COLUMNS", "50")
    compile_step(monkeypatch, Progress(ticking(0.5), screen))
    *passing, last = screen.getvalue().split(ERASE_LINE)[1:]
    assert max(map(len, passing)) < 50 < len(last)


def test_a_step_that_fails_ends_its_line() -> None:
    screen = Terminal()
    progress = Progress(ticking(2.0), screen)

    def fail() -> None:
        with progress.compilation("step"):
            progress.note("5 equations traced")
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()
    assert screen.getvalue().endswith(" s not compiled\n")
    progress.note("nothing is compiled")
    assert "nothing" not in screen.getvalue()


def test_a_closed_terminal_stops_no_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(Terminal):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    compile_step(monkeypatch, Progress(ticking(0.5), Closed()))
