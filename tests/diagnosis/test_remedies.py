"""Every error that a user may see has a remedy: the number of those without one only falls."""

from __future__ import annotations

import re
from pathlib import Path

from tests.diagnosis.test_error_explanation import MISTAKES
from tests.support.raise_sites import SOLVED_BY_TRIALS, RaiseSite, find_patterns, find_raise_sites

from adjoint.diagnosis.remedies import remedy_order

MAX_WITHOUT_REMEDY = 120


def test_errors_without_a_remedy_become_fewer() -> None:
    patterns = find_patterns()
    unknown = [site for site in find_raise_sites() if not site.is_known(patterns)]
    assert len(unknown) <= MAX_WITHOUT_REMEDY, "\n".join(f"{each.place} {each.message[:120]}" for each in unknown)


def test_a_message_is_known_by_its_words_with_values_in_it() -> None:
    site = RaiseSite("a.py:1", "ValueError", "expected {value} to be below {value}")
    assert site.is_known([re.compile(r"expected \d+ to be below \d+")])
    assert not site.is_known([re.compile(r"expected \d+ to be above")])


def test_what_trials_solve_has_a_program_that_shows_it() -> None:
    programs = {each.name for mistakes in MISTAKES.values() for each in mistakes}
    assert {*SOLVED_BY_TRIALS.values()} <= programs


def test_every_module_that_has_remedies_stands_in_their_order() -> None:
    folder = Path(remedy_order.__file__).parent
    texts = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    having = {path for path, text in texts.items() if re.search(r"^@remedy\(|^register_advice\(", text, re.MULTILINE)}
    assert having == {Path(str(module.__file__)) for module in remedy_order.MODULES}
