"""The site: `python3 dev.py docs` builds README.md, docs/ and the API reference into site/, which needs no network.

Sphinx makes it, and every warning is an error: a link without an end, a page that no other lists, a block that cannot
be read. Links to files of the project lead to pages with their lines.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

ROOT = Path(__file__).resolve().parents[1]
BESIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")  # pages that stand outside of docs/
LINK = re.compile(  # or a block of code, in which `layers[0](x)` is a call
    r"\[([^\]\n]+)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)|^(`{3,})[^`\n]*\n.*?^\4$", re.MULTILINE | re.DOTALL
)
PROGRAM_MARK = "THE PROGRAM"  # in docs/try.md, for the first program of README.md
SOURCE_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{name}</title><style>body{{font:13px/1.5 ui-monospace,monospace;margin:1rem}}pre{{margin:0}}
:root{{color-scheme:light dark}}a{{color:inherit;opacity:.5;text-decoration:none;user-select:none}}
:target{{background:#fd53}}h1{{font-size:1rem}}</style><h1>{name}</h1><pre>{lines}</pre></html>
"""


class SourcePages:
    """Pages with the lines of the project's files; only those that a link leads to are written."""

    def __init__(self, site: Path) -> None:
        self.site = site
        self.paths: set[Path] = set()

    def link(self, path: Path, line: int, depth: int, text: str) -> str:
        """An HTML link from a page `depth` folders below the root to a line of `path`."""
        self.paths.add(path)
        target = f"{'../' * depth}source/{path.relative_to(ROOT).as_posix()}.html"
        return f'<a class="source" href="{target}#L{line}">{html.escape(text)}</a>'

    def write(self) -> None:
        """Write each page that was linked."""
        for path in sorted(self.paths):
            name = path.relative_to(ROOT).as_posix()
            rows = path.read_text(encoding="utf-8").splitlines()
            lines = "\n".join(
                f'<span id="L{i}"><a href="#L{i}">{i:>4}</a>  {html.escape(row)}</span>'
                for i, row in enumerate(rows, 1)
            )
            page = self.site / "source" / f"{name}.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(SOURCE_PAGE.format(name=html.escape(name), lines=lines), encoding="utf-8")


def main() -> int:
    """Build the site, and tell where it is."""
    sys.path.insert(0, str(ROOT / "src"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "site", help="folder of the site; ./site by default")
    out = parser.parse_args().out.resolve()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ.update(prepare_kernel(Path(scratch)))
        pages, site = Path(scratch, "pages"), Path(scratch, "site")
        status = build(pages, site)
        if status:
            return status
        shutil.rmtree(out, ignore_errors=True)
        shutil.move(site, out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
    sys.stdout.write(f"{os.path.relpath(out)}/index.html: {size:.0f} MB in {time.perf_counter() - start:.0f} s\n")
    return 0


def prepare_kernel(scratch: Path) -> dict[str, str]:
    """The settings of the process that runs the pages' cells: this checkout's library, and figures as SVG."""
    profile = scratch / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    settings = ["InlineBackend.figure_formats = {'svg'}", "IPKernelApp.log_level = 'ERROR'"]  # it warns of its socket
    lines = "".join(f"get_config().{setting}\n" for setting in settings)
    (profile / "ipython_kernel_config.py").write_text(lines)
    return {
        "PYTHONPATH": str(ROOT / "src"), "IPYTHONDIR": str(profile.parent), "JUPYTER_RUNTIME_DIR": str(scratch / "run"),
        "MPLCONFIGDIR": str(scratch / "matplotlib"), "MATPLOTLIBRC": str(ROOT / "docs" / "_static" / "matplotlibrc"),
        "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip


def build(pages: Path, site: Path) -> int:
    """Gather the pages, write the reference, and run Sphinx; returns its exit status."""
    from api_reference import write_reference
    from reference_examples import FOLDER
    from sphinx.cmd.build import build_main

    sources = SourcePages(site)
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns(FOLDER.name))  # these become parts of pages
    for name in BESIDE:
        shutil.copy(ROOT / name, pages / name)
    for page in sorted(pages.rglob("*.md")):
        folder = ROOT if page.name in BESIDE else ROOT / "docs" / page.parent.relative_to(pages)
        text = page.read_text(encoding="utf-8")
        page.write_text(redirect_links(text, folder, page.relative_to(pages), sources), encoding="utf-8")
    try_page = pages / "try.md"
    try_page.write_text(insert_program(try_page.read_text(encoding="utf-8")), encoding="utf-8")
    write_reference(pages / "reference", lambda path, line: sources.link(path, line, 1, "source"))
    command = ["-b", "html", "-q", "-W", "--keep-going", "-j", "auto", "-d", str(pages.parent / "doctrees")]
    status = build_main([*command, str(pages), str(site)])
    if not status:
        pack_library(site / "_static" / "adjoint.zip")
    sources.write()
    return int(status)


def insert_program(text: str) -> str:
    """The page with the first program of README.md. Its blank lines hold a space: empty ones would end the HTML."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert block is not None
    return text.replace(PROGRAM_MARK, html.escape(block[1].replace("\n\n", "\n \n")))


def pack_library(path: Path) -> None:
    """Write an archive of the library, which pages with cells unpack in a reader's browser."""
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for file in sorted((ROOT / "src").rglob("*")):
            if file.is_file() and file.suffix not in (".pyc", ".pyi"):
                archive.write(file, file.relative_to(ROOT / "src"))


def redirect_links(text: str, folder: Path, page: Path, sources: SourcePages) -> str:
    """The page with links that hold in the site: to other pages, or to pages of lines.

    Raises: FileNotFoundError for a link to a file that the project lacks.
    """

    def redirect(found: re.Match[str]) -> str:
        if found[4]:
            return found[0]
        words, target, anchor = found[1], (folder / found[2]).resolve(), found[3] or ""
        if not target.exists():
            raise FileNotFoundError(f"{page} links to {found[2]}, which is not there")
        if target.suffix == ".md":
            base = ROOT / "docs" if target.is_relative_to(ROOT / "docs") else ROOT
            relative = os.path.relpath(target.relative_to(base), page.parent)
            return f"[{words}]({relative}{anchor})"
        if target.suffix in (".svg", ".png"):
            return f"[{words}]({os.path.relpath(target.relative_to(ROOT / 'docs'), page.parent)})"
        if target.is_dir():
            return words
        return sources.link(target, 1, len(page.parts) - 1, words.strip("`"))

    return LINK.sub(redirect, text)


if __name__ == "__main__":
    sys.exit(main())
