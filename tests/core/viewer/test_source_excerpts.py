"""Excerpts of the user's files."""

from pathlib import Path

from adjoint.core.graph.source_location import Site
from adjoint.core.viewer.document import DrawnGraph, DrawnGroup, DrawnNode, GraphDocument
from adjoint.core.viewer.source_excerpts import LINES_AROUND, collect_excerpts


def excerpts(*sites: Site, group_sites: tuple[Site, ...] = ()) -> list[tuple[str, list[tuple[int, int]]]]:
    groups = (DrawnGroup("m", "m", sites=group_sites),)
    found = collect_excerpts(GraphDocument("t", (DrawnGraph("g", (DrawnNode("a", "mul", sites=sites),), groups),)))
    return [(each.name, [(first, len(run)) for first, run in each.parts]) for each in found]


def test_lines_around_those_of_nodes_and_groups(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("pass\n" * 100, encoding="utf-8")
    near, far = Site(str(file), 5, "f"), Site(str(file), 80, "f")
    assert excerpts(near) == [("a.py", [(1, 5 + LINES_AROUND)])]
    assert excerpts(near, group_sites=(far,)) == [("a.py", [(1, 5 + LINES_AROUND), (68, 2 * LINES_AROUND + 1)])]


def test_runs_that_touch_are_one(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("pass\n" * 100, encoding="utf-8")
    sites = [Site(str(file), line, "f") for line in (40, 40 + 2 * LINES_AROUND + 1)]
    assert excerpts(*sites) == [("a.py", [(40 - LINES_AROUND, 4 * LINES_AROUND + 2)])]


def test_a_file_without_source_has_no_lines() -> None:
    assert excerpts(Site("<string>", 1, "f")) == [("<string>", [])]
