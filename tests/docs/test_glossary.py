"""docs/glossary.md: one row for each term, in order, with a file that exists."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
ORIGINS = {"PyTorch", "JAX", "LLVM", "BLIS", "XLA", "CPython", "the paper", "ours"}


def rows() -> list[list[str]]:
    """Return the cells of the table: term, meaning, whose word, path."""
    table = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("| --- |")[2]
    return [[cell.strip(" `") for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[1:]]


def test_terms_are_sorted_and_unique() -> None:
    terms = [term.casefold() for term, *_ in rows()]
    assert len(terms) > 100
    assert terms == sorted(set(terms))


def test_each_term_has_a_sentence_an_origin_and_a_file() -> None:
    for term, meaning, origin, path in rows():
        assert meaning.endswith("."), term
        assert origin in ORIGINS, term
        assert (ROOT / "src" / "adjoint" / path).is_file(), f"{term}: {path}"
