"""Rows as aligned text."""

from __future__ import annotations

from adjoint.core.runtime.text_table import format_columns


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert format_columns([("a", "bb", "c"), ("10", "b", "ccc")]) == ["a   bb  c", "10  b   ccc"]


def test_numbers_stand_flush_right() -> None:
    assert format_columns([("n", "x"), ("1,000", "y"), ("7", "z")], (0,)) == ["    n  x", "1,000  y", "    7  z"]


def test_a_shorter_row_runs_on_and_makes_no_column_wider() -> None:
    assert format_columns([("a", "b", "c"), ("", "a long remark")]) == ["a  b  c", "   a long remark"]


def test_no_rows() -> None:
    assert format_columns([]) == []
