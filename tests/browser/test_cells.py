"""Cells of the site run in the page: nothing is fetched before, names are shared, and README's program trains."""

import functools
import http.server
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sphinx = pytest.importorskip("sphinx.cmd.build", reason="the package sphinx is not installed")
pytest.importorskip("myst_nb", reason="the package myst-nb is not installed")

ROOT = Path(__file__).parents[2]
RUNTIME = Path(os.environ.get("ADJOINT_PYODIDE") or ROOT / ".pyodide" / "runtime")
SECONDS = 300
PAGE = """---
file_format: mystnb
kernelspec:
  name: python3
---
# Cells

```{code-cell} python
import adjoint as ad

x = ad.tensor([1.0, 2.0], requires_grad=True)
print("made", x.shape)
```

```{code-cell} python
(x * x).sum().backward()
x.grad
```

```{code-cell} python
absent + 1
```
"""

sys.path.append(str(ROOT / "tools"))

import build_site  # noqa: E402 - tools/ is no package


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pages of the site as Sphinx makes them, with the library's archive."""
    pages, out = tmp_path_factory.mktemp("pages"), tmp_path_factory.mktemp("site")
    (pages / "index.md").write_text("# Index\n\n```{toctree}\ntry.md\nsub/cells.md\n```\n", encoding="utf-8")
    (pages / "sub").mkdir()
    (pages / "sub" / "cells.md").write_text(PAGE, encoding="utf-8")
    text = (ROOT / "docs" / "try.md").read_text(encoding="utf-8")
    text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", text)  # the pages that it links to are not here
    (pages / "try.md").write_text(build_site.insert_program(text), encoding="utf-8")
    options = ["-q", "-b", "html", "-c", str(ROOT / "docs"), "-D", "nb_execution_mode=off"]
    assert sphinx.build_main([*options, "-d", str(out / "doctrees"), str(pages), str(out / "html")]) == 0
    build_site.pack_library(out / "html" / "_static" / "adjoint.zip")
    return out / "html"


@pytest.fixture
def serve(site: Path) -> Iterator[str]:
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context()
    page = context.new_page()
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url))
    yield page
    context.close()


@pytest.fixture
def runtime(site: Path) -> Iterator[None]:
    """Pyodide in the site's folder."""
    if not (RUNTIME / "pyodide.js").exists():
        pytest.skip("no Pyodide: python3 tools/pyodide.py fetches it, and ADJOINT_PYODIDE names a folder of one")
    (site / "pyodide").symlink_to(RUNTIME)
    yield
    (site / "pyodide").unlink()


def wait_until_run(page: Any, number: int, state: str = "done") -> str:
    """Wait for the end of a cell, and return what it shows."""
    output = page.locator(".live_output").nth(number)
    page.wait_for_function(
        "([number, state]) => document.querySelectorAll('.live_output')[number].dataset.state === state",
        arg=[number, state],
        timeout=SECONDS * 1000,
    )
    return output.inner_text()


def test_a_page_fetches_nothing_of_python_before_its_reader_agrees(page: Any, serve: str) -> None:
    page.goto(f"{serve}try.html")
    assert "from sklearn.datasets import load_digits\n \nimport adjoint as ad" in page.locator("#program").input_value()
    assert not [url for url in page.asked if "pyodide" in url or not url.startswith(serve)]
    page.locator(".live_run").click()
    assert "It can be fetched from cdn.jsdelivr.net" in page.locator(".live_question").inner_text()
    assert page.locator(".live_agree").is_visible()
    assert not [url for url in page.asked if not url.startswith(serve)]
    page.locator(".live_stop").click()
    assert page.locator(".live_question").count() == 0


@pytest.mark.nightly
@pytest.mark.usefixtures("runtime")
def test_cells_run_in_order_and_share_names(page: Any, serve: str) -> None:
    page.goto(f"{serve}sub/cells.html")
    assert page.locator(".live_run").count() == 3
    page.locator(".live_run").nth(1).click()
    assert re.search(r"2\.\s+4\.", wait_until_run(page, 1))
    assert "made" in wait_until_run(page, 0)
    page.locator(".live_run").nth(2).click()
    shown = wait_until_run(page, 2, "failed")
    assert "NameError: name 'absent' is not defined" in shown
    assert 'File "cell 3", line 1' in shown
    assert "run_cell" not in shown
    assert not [url for url in page.asked if not url.startswith(serve)]


@pytest.mark.nightly
@pytest.mark.usefixtures("runtime")
def test_the_program_of_readme_is_edited_and_trains(page: Any, serve: str) -> None:
    page.goto(f"{serve}try.html")
    program = page.locator("#program")
    program.fill(program.input_value().replace("range(20)", "range(2)") + "print(step.explain())\n")
    program.press("Control+Enter")
    shown = wait_until_run(page, 0)
    assert re.search(r"accuracy on the 357 other digits: [6-9]\d\.\d%", shown)
    assert "step: not compiled. adjoint.compile needs the package llvmlite" in shown
    program.fill("while True:\n    pass")
    page.locator(".live_run").click()
    page.wait_for_function("document.querySelector('.live_status').textContent.startsWith('Python runs')")
    page.locator(".live_stop").click()
    wait_until_run(page, 0, "failed")
    program.fill("1 + 1")
    page.locator(".live_run").click()
    assert wait_until_run(page, 0) == "2"
