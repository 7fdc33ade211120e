"""Names that statements read and write, as far as their function sees them."""

from __future__ import annotations

import ast

import pytest

from adjoint.compiler.scripts.name_uses import find_index_names, find_name_uses

CASES = {  # source: read, written, surely bound, read first
    "a = b": ("b", "a", "a", "b"),
    "a += b": ("a b", "a", "a", "a b"),
    "a = 1\nb = a": ("a", "a b", "a b", ""),
    "b = a\na = 1": ("a", "a b", "a b", "a"),
    "if c:\n    a = 1\nb = a": ("a c", "a b", "b", "a c"),
    "if c:\n    a = 1\nelse:\n    a = 2\nb = a": ("a c", "a b", "a b", "c"),
    "for i in n:\n    a = i": ("i n", "a i", "", "n"),
    "for i in n:\n    a = a + i": ("a i n", "a i", "", "a n"),
    "while c:\n    c = a": ("a c", "c", "", "a c"),
    "with o() as f:\n    a = f": ("f o", "a f", "a f", "o"),
    "try:\n    a = 1\nexcept E:\n    b = 2": ("E", "a b", "", "E"),
    "x.a = b": ("b x", "", "", "b x"),
    "x[i] = b": ("b i x", "", "", "b i x"),
    "a: int": ("int", "", "", ""),
    "import m.n, p as q": ("", "m q", "m q", ""),
    "c = [i for i in n if i > a]": ("a n", "c", "c", "a n"),
    "c = [(b := i) for i in n]": ("n", "b c", "b c", "n"),
    "match v:\n    case [a, *b]:\n        c = a": ("a v", "a b c", "", "a v"),
    "def f(x, y=d):\n    return x + z": ("d z", "f", "f", "d z"),
    "c = lambda x: x + z": ("z", "c", "c", "z"),
    "*a, (b, c) = d": ("d", "a b c", "a b c", "d"),
}  # fmt: skip


@pytest.mark.parametrize("source", CASES)
def test_names_of_statements(source: str) -> None:
    read, written, surely, first = (set(names.split()) for names in CASES[source])
    uses = find_name_uses(ast.parse(source).body)
    assert (uses.reads, uses.writes, uses.surely, uses.first) == (read, written, surely, first)


def test_names_that_a_function_captures() -> None:
    uses = find_name_uses(
        ast.parse("f = lambda x: x + a\ng = [i + b for i in n]\nh = (i + c for i in n for _ in d)").body
    )
    assert uses.captured == {"a", "c", "d"}  # n is iterated at once


def test_names_that_are_unbound() -> None:
    assert find_name_uses(ast.parse("del a").body).deletes == {"a"}
    assert find_name_uses(ast.parse("try:\n    a()\nexcept E as e:\n    pass").body).deletes == {"e"}


def test_names_that_are_an_index_alone() -> None:
    assert find_index_names(ast.parse("a = x[rows]\nb = y[a, cols]\nc = z[n] + n\nrows = x[rows]").body) == {"rows"}
