"""The demo: both runs agree, it recognises the digits, and its page shows what it should and needs nothing else."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed")

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples" / "digits.py"
VOID = {"br", "meta"}  # the elements without an end that the page uses


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the demo as a program whose warnings are errors."""
    own = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    environment = {**os.environ, **own, **variables}
    command = [sys.executable, "-W", "error", str(PROGRAM), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)


class Page(HTMLParser):
    """The page's elements; an end tag that does not fit the innermost open element raises."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def with_class(self, tag: str, name: str) -> list[dict[str, str | None]]:
        """The elements of this tag which are of this class."""
        return [attrs for found, attrs in self.elements if found == tag and name in (attrs.get("class") or "").split()]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """What the demo printed, and its page."""
    folder = tmp_path_factory.mktemp("demo") / "new"
    done = run("--epochs", "4", "--out", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(folder / "digits.html") in done.stdout
    return done.stdout, (folder / "digits.html").read_text(encoding="utf-8")


def test_both_runs_learn_and_agree(demo: tuple[str, str]) -> None:
    printed, _ = demo
    reached = [float(share) for share in re.findall(r"epoch 4/4 .* test accuracy ([\d.]+)%", printed)]
    assert len(reached) == 2
    assert min(reached) >= 97
    difference = re.search(r"differ by at most (\S+), relatively, over (\d+) steps", printed)
    assert float(difference[1]) <= 1e-4
    assert int(difference[2]) == 4 * 45  # the last batch of an epoch is smaller
    assert "speed ratio" in printed
    assert "fastest step" in printed
    assert "s of processor time" in printed


def test_one_program_is_made_for_each_batch_size(demo: tuple[str, str]) -> None:
    pytest.importorskip("llvmlite")
    assert re.search(r"programs made +2:", demo[0])


def test_without_a_terminal_the_progress_is_plain_lines(demo: tuple[str, str]) -> None:
    assert "\r" not in demo[0]
    assert "\x1b" not in demo[0]
    assert len(re.findall(r"^(?:eager|compiled) +epoch", demo[0], re.MULTILINE)) == 8


def test_page_is_well_formed_and_needs_nothing_else(demo: tuple[str, str]) -> None:
    page = Page(demo[1])
    assert page.open == []
    assert "http" not in demo[1]
    assert {"script", "link", "iframe", "img", "object"}.isdisjoint(tag for tag, _ in page.elements)
    assert {"src", "href"}.isdisjoint(name for _, attrs in page.elements for name in attrs)
    assert not re.search(r"@import|url\(", demo[1])


def test_every_picture_has_a_label(demo: tuple[str, str]) -> None:
    pictures = [attrs for tag, attrs in Page(demo[1]).elements if tag == "svg"]
    assert len(pictures) > 3
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in pictures)


def test_both_curves_are_drawn(demo: tuple[str, str]) -> None:
    page = Page(demo[1])
    for name in ("eager", "compiled"):
        drawn = page.with_class("path", name)
        lines = [attrs["d"] or "" for attrs in drawn if "line" in (attrs["class"] or "").split()]
        assert [line.count("L") for line in lines] == [4 * 45 - 1, 0, 3, 0]  # losses, legend, accuracies, legend


def test_all_misclassified_digits_are_shown(demo: tuple[str, str]) -> None:
    found = re.search(r"<b>(\d+) misclassified</b> of 359", demo[1])
    assert 0 < int(found[1]) <= 0.03 * 359
    labels = [attrs["aria-label"] or "" for attrs in Page(demo[1]).with_class("svg", "scan")]
    assert len(labels) == int(found[1])
    said = [re.fullmatch(r"Scan of a (\d) that was read as a (\d)", label) for label in labels]
    assert all(match is not None and match[1] != match[2] for match in said)


def test_kernels_name_the_lines_they_came_from(demo: tuple[str, str]) -> None:
    pytest.importorskip("llvmlite")
    page = Page(demo[1])
    assert len(page.with_class("tr", "kernel")) > 10
    source = PROGRAM.read_text(encoding="utf-8").splitlines()
    for text in ("loss = F.cross_entropy(model(x), y)", "optimizer.step()", "return self.head(x)"):
        line = next(i for i, written in enumerate(source, 1) if written.strip().startswith(text))
        assert f"digits.py:{line}" in page.words
    assert re.search(r"Memory plan\.</b> .*arena of [\d,]+ bytes", demo[1])
    assert str(ROOT) not in demo[1]


def test_too_little_learned_is_a_failure(tmp_path: Path) -> None:
    done = run("--epochs", "1", "--out", str(tmp_path))
    assert done.returncode == 1
    assert "the eager run ends at a test accuracy of" in done.stderr
    assert (tmp_path / "digits.html").exists()


def test_bad_options_are_refused_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for arguments, complaint in [
        (("--epochs", "0"), "--epochs must be at least 1, not 0"),
        (("--out", str(tmp_path / "file")), "--out: File exists"),
    ]:
        done = run(*arguments)
        assert done.returncode == 2
        assert complaint in done.stderr
        assert done.stdout == ""


def test_missing_scikit_learn_is_told(tmp_path: Path) -> None:
    (tmp_path / "sklearn.py").write_text("raise ImportError('hidden')\n")
    done = run("--out", str(tmp_path), PYTHONPATH=os.pathsep.join([str(ROOT / "src"), str(tmp_path)]))
    assert done.returncode == 1
    assert "pip install scikit-learn" in done.stderr
