"""What the pages link to, and what the maps of folders are searched for, is there."""

import re
from pathlib import Path

import pytest
from tools.folder_maps import PACKAGE

ROOT = PACKAGE.parents[1]


@pytest.mark.claim("4.24")
def test_links_of_the_pages_are_valid() -> None:
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        for target in re.findall(r"\]\((?!https?://|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_paths_of_source_files_that_pages_name_exist() -> None:
    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        for path in re.findall(r"`(src/adjoint[\w/.]*)`", page.read_text(encoding="utf-8")):
            assert (ROOT / path).exists(), f"{page.name} names {path}"


def test_each_section_of_from_scratch_says_where_the_real_one_is() -> None:
    _, *sections = (ROOT / "docs" / "from_scratch.md").read_text(encoding="utf-8").split("\n## ")
    for section in sections[:-1]:  # the last names folders
        assert re.match(r"The real ones? (is|are) in `src/adjoint/", section.strip().splitlines()[-1]), section[:40]


@pytest.mark.claim("4.24")
def test_the_folders_maps_name_the_parts_people_look_for() -> None:
    for name in (
        "nn/module/module.py", "nn/module/hooks.py", "core/graph/node.py", "core/op/apply.py",
        "autograd/engine/engine.py",
        "autograd/function/function.py", "transforms/functional/api.py", "nn/functional.py",
    ):  # fmt: skip
        assert Path(PACKAGE / name).exists()
        assert f"- `{Path(name).stem}`: " in (PACKAGE / name).with_name("__init__.py").read_text(encoding="utf-8")
