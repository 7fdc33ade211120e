"""docs/claims.md and the tests that carry its ids; `python3 tools/claims.py` fills in the files of a row."""

from collections import Counter

from tools.claims import PAGE, claimed, marked, with_tests


def test_every_claim_has_a_test_and_every_mark_a_claim() -> None:
    ids = claimed(PAGE.read_text(encoding="utf-8"))
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    assert set(ids) == set(marked())


def test_the_files_of_each_claim_are_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == with_tests(text), "stale: run `python3 tools/claims.py`"
    assert "`autograd/engine/test_engine.py`" in text


def test_files_are_filled_in_and_nothing_else_changes() -> None:
    head = "# A page\n\n| id | claim | tests |\n| --- | --- | --- |\n"
    row = with_tests(f"{head}| U29 | Why. |\n\nMore.\n")
    assert row == f"{head}| U29 | Why. | `autograd/debug/test_why_no_grad.py` |\n\nMore.\n"
    assert with_tests(row) == row
    assert claimed(row) == ["U29"]
