"""The digits demo in a browser: the page trains itself, from a file, and recognises what is drawn in it."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llvmlite")
ROOT = Path(__file__).parents[2]
CENTRE = 144
RING = [(CENTRE + 70 * math.sin(t / 4), CENTRE - 110 * math.cos(t / 4)) for t in range(27)]
STROKE = [(CENTRE - 30, 70), (CENTRE, 40), (CENTRE, 250)]
# Ten glyphs of 8 × 8 cells, a byte for each row, instead of scikit-learn's scans, which not every environment has.
PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from digits import Digits
from digits_web import write_page
import adjoint as ad

GLYPHS = '''
3c24424242422418 1838181818181818 3c46060c18307e7e 3c66061c0606663c 0c1c2c4c7e0c0c0c
7e60607c0606663c 1c30607c6666663c 7e06060c18183030 3c66663c6666663c 3c6666663e060c38
'''.split()
cells = [np.unpackbits(np.frombuffer(bytes.fromhex(glyph), np.uint8)).reshape(8, 8) for glyph in GLYPHS]
random = np.random.default_rng(0)
labels = random.integers(0, 10, 1700)
images = np.array([np.roll(cells[label], random.integers(-1, 2), 1) for label in labels])
images = images * random.uniform(0.6, 1, (1700, 1, 1))
images = np.clip(images + random.normal(0, 0.12, images.shape), 0, 1)
x, y = ad.tensor(images[:, None], dtype=ad.float32), ad.tensor(labels)
page = write_page(Digits(x[:1408], y[:1408], x[1408:], y[1408:]), epochs=4, seed=0)
Path(sys.argv[1]).write_text(page, "utf-8")
"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("digits-web") / "index.html"
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "examples")])
    command = [sys.executable, "-c", PROGRAM, str(file)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True, timeout=300)
    return file


@pytest.fixture
def page(page_file: Path, show: Callable[..., Any]) -> Any:
    return show(page_file)


def draw(page: Any, points: list[tuple[float, float]]) -> str:
    """Draw a line on the pad, whose sides are 288 long, and return what the page takes it for."""
    page.click("#clear")
    box = page.locator("#pad").bounding_box()
    places = [(box["x"] + x * box["width"] / 288, box["y"] + y * box["height"] / 288) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place)
    page.mouse.up()
    text: str = page.locator("#guess").inner_text()
    return text


def test_the_page_trains_and_recognises_what_is_drawn(page: Any) -> None:
    facts = page.evaluate("({ ...document.documentElement.dataset })")
    assert facts["epoch"] == "4"
    assert float(facts["accuracy"]) >= 0.95
    assert len(page.locator("#losses").get_attribute("d").split("L")) == 4 * 44
    assert draw(page, RING) == "0"
    assert draw(page, STROKE) == "1"
    assert page.locator("#bars i").count() == 10
    page.click("#clear")
    assert page.locator("#guess").inner_text() == "–"


def test_it_trains_again_to_the_same_loss(page: Any) -> None:
    before = page.evaluate("document.documentElement.dataset.loss")
    page.evaluate("delete document.documentElement.dataset.ready")
    page.click("#again")
    page.wait_for_function("document.documentElement.dataset.ready")
    assert page.evaluate("document.documentElement.dataset.loss") == before
