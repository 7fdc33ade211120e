"""The picture of a graph in docs/: `python3 tools/graph_picture.py` takes it anew, with Playwright and a Chromium."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "_static" / "graph.png"
WIDTH, HEIGHT = 1280, 760
STEP = 7  # of the backward pass that the picture shows
SCROLL_PX = 40
PROGRAM = '''\
import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.mlp = nn.Sequential(
            nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size)
        )

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Linear(64, 32)
        self.blocks = nn.Sequential(Block(32), Block(32))
        self.head = nn.Linear(32, 10)

    def forward(self, images):
        x = self.embedding(images.flatten(1))
        return self.head(self.blocks(x))


ad.manual_seed(0)
model = Classifier()
images, labels = ad.rand(16, 8, 8), ad.arange(16) % 10
loss = F.cross_entropy(model(images), labels)
ad.visualize(loss, backward=True, path="graph.html")
'''


def main() -> None:
    """Write the picture."""
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(ROOT / "src"))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        program = Path(folder) / "train.py"
        program.write_text(PROGRAM, encoding="utf-8")
        os.chdir(folder)
        exec(compile(PROGRAM, str(program), "exec"), {"__name__": "__main__"})
        chromium = playwright.chromium.launch(
            executable_path=os.environ.get("ADJOINT_CHROMIUM") or shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto((Path(folder) / "graph.html").as_uri())
        for label in ("blocks", "1", "mlp", "0"):
            page.locator(".folded", has=page.locator(f"text.label:text-is('{label}')")).last.click()
        page.locator("#walk-slider").fill(str(STEP))
        page.locator("#canvas").hover()
        page.mouse.wheel(0, SCROLL_PX)
        page.mouse.move(5, 5)
        page.wait_for_timeout(500)
        page.screenshot(path=PICTURE)
        chromium.close()


if __name__ == "__main__":
    main()
