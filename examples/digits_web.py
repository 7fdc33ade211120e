"""Writes a page that trains a digit classifier by itself, and recognises the digits that a reader draws in it.

    python3 dev.py demo --web [--epochs N] [--seed N] [--out DIR]

The training step of `digits.py` and its inference are compiled, called once, and exported as WebAssembly. Both, their
weights and the scanned digits are part of `digits-web/index.html`, which needs no server and no network: open the file.
Nothing is learned in Python: the page begins with random weights.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from digits import BATCH, Classifier, Digits, load_digits

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import optim

TEMPLATE = Path(__file__).with_name("digits_web.html")
RATE = 3e-3


def export_steps(digits: Digits, seed: int, folder: Path) -> None:
    """Write the training step and the inference of one digit, as they are before anything is learned."""
    ad.manual_seed(seed)
    model = Classifier()
    optimizer = optim.AdamW(model.parameters(), lr=RATE)

    @ad.compile
    def train(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    @ad.compile
    def predict(x: ad.Tensor) -> ad.Tensor:
        return F.softmax(model(x), dim=1)

    model.eval()
    with ad.no_grad():
        predict(digits.test_x[:1].clone())
        predict.export(folder / "predict.wasm", "wasm32")
    model.train()
    optimizer.param_groups[0]["lr"] = 0.0  # the call that makes the program is to teach it nothing
    train(digits.train_x[:BATCH].clone(), digits.train_y[:BATCH].clone())
    train.export(folder / "train.wasm", "wasm32")


def write_page(digits: Digits, epochs: int, seed: int) -> str:
    """The page as HTML, with the modules, their memory and the digits in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export_steps(digits, seed, folder)
        parts = {
            part: {
                "code": _in_function((folder / f"{part}.mjs").read_text("utf-8")),
                "wasm": _encode((folder / f"{part}.wasm").read_bytes()),
                "image": _encode((folder / f"{part}.bin").read_bytes()),
            }
            for part in ("train", "predict")
        }
    data = {"epochs": epochs, "seed": seed, "batch": BATCH, "rate": RATE}
    for half, x, y in (("train", digits.train_x, digits.train_y), ("test", digits.test_x, digits.test_y)):
        scans = np.round(x.numpy() * 16).astype(np.uint8)
        data[half] = {"scans": _encode(scans.tobytes()), "labels": _encode(y.numpy().astype(np.uint8).tobytes())}
    page = TEMPLATE.read_text("utf-8").replace("DATA", json.dumps(data))
    for part, texts in parts.items():
        code = f"await {texts['code']}({{ wasm: bytes('{texts['wasm']}'), image: bytes('{texts['image']}') }})"
        page = page.replace(f"{part.upper()}_STEP", code)
    return page


def _in_function(module: str) -> str:
    """The `load` of an exported module, as an expression: a page that is a file may not import other files."""
    return f"(() => {{\n{module.replace('export ', '')}\nreturn load;\n}})()"


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description="Write a page that trains on scanned digits by itself.")
    parser.add_argument("--web", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--epochs", type=int, default=12, metavar="N", help="how often to go through the data (12)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="where the random numbers begin (0)")
    parser.add_argument("--out", type=Path, default=Path("digits-web"), metavar="DIR", help="the folder (digits-web)")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, not {options.epochs}")
    digits = load_digits()
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out: {error.strerror}: {options.out}")
    page = options.out.resolve() / "index.html"
    page.write_text(write_page(digits, options.epochs, options.seed), encoding="utf-8")
    print(f"page             {page}\nopen it in a browser: it needs no server")
    return 0


if __name__ == "__main__":
    sys.exit(main())
