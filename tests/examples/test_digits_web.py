"""The demo that trains in its page: what the program writes; tests/browser/test_digits_web.py opens such a page."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed")
PROGRAM = Path(__file__).parents[2] / "examples" / "digits_web.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[1] / "src")}
    command = [sys.executable, str(PROGRAM), "--web", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    done = run("--out", str(tmp_path / "digits-web"), "--epochs", "2")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.rglob("*.*")] == ["index.html"]
    page = (tmp_path / "digits-web" / "index.html").read_text("utf-8")
    assert '"epochs": 2' in page
    assert "AGFzbQEAAA" in page  # a WebAssembly module, in base64
    assert not re.search(r"""(src|href)=["'](?!data:)|_STEP\b|= DATA;|^export """, page, re.MULTILINE)


def test_bad_options_are_refused(tmp_path: Path) -> None:
    done = run("--epochs", "0", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "--epochs must be at least 1, not 0" in done.stderr
