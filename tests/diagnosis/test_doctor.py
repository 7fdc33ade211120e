"""`ad.doctor`: mistakes that raise no error are found by line and name; corrected programs give no finding."""

from __future__ import annotations

import io
import linecache
import warnings
from pathlib import Path

import pytest
from tests.support.mistaken_programs import PRELUDE, Mistake
from tests.support.mistaken_programs.loops import LOOP_MISTAKES
from tests.support.mistaken_programs.losses import LOSS_MISTAKES
from tests.support.mistaken_programs.parameters import PARAMETER_MISTAKES
from tests.support.mistaken_programs.sound import SOUND_PROGRAMS

import adjoint as ad
from adjoint.diagnosis.findings import Report

MISTAKES = [*LOSS_MISTAKES, *PARAMETER_MISTAKES, *LOOP_MISTAKES]
EACH = pytest.mark.parametrize("mistake", [pytest.param(mistake, id=mistake.title) for mistake in MISTAKES])


def examine(text: str, folder: Path) -> Report:
    """Run a program under watch and return the report."""
    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    linecache.checkcache(str(path))
    with warnings.catch_warnings(), ad.doctor(file=io.StringIO()) as report:
        warnings.simplefilter("ignore")
        exec(compile(text, str(path), "exec"), {"__name__": "program"})
    return report


@EACH
def test_mistake_is_found_with_its_line_and_name(mistake: Mistake, tmp_path: Path) -> None:
    report = examine(mistake.mistaken, tmp_path)
    found = [finding for finding in report if finding.kind == mistake.kind]
    assert found, report
    assert f"program.py:{mistake.blamed_line}" in found[0].line, report
    assert mistake.name in found[0].name, report
    assert found[0].advice
    assert found[0].problem in str(report)


@EACH
def test_corrected_program_has_no_finding(mistake: Mistake, tmp_path: Path) -> None:
    assert str(examine(mistake.corrected, tmp_path)).startswith("doctor: nothing found")


@pytest.mark.parametrize("source", [pytest.param(source, id=title) for title, source in SOUND_PROGRAMS.items()])
def test_sound_program_has_no_finding(source: str, tmp_path: Path) -> None:
    assert str(examine(PRELUDE + source, tmp_path)).startswith("doctor: nothing found")
