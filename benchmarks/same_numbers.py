"""The same seed, the same program, two libraries: how far the losses of our training runs lie from PyTorch's.

    python3 dev.py bench same_numbers [--quick]

ADJOINT_ORACLE=1 before it has PyTorch installed. Each model is written once, with the library as a parameter; initial
weights, batches and what dropout drops come from each library's own generator after `manual_seed`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from .measure import hold_to_one_thread, installed, machine, table

STEPS = 100
BATCH = 32
SEED = 3
TARGET = 1e-4
Build = Callable[[Any], tuple[Any, Any]]  # of a library: a model and its optimizer


def _itself(step: Any) -> Any:
    return step


def main() -> None:
    """Print the largest relative difference of each model's losses, eager and compiled."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="ten steps")
    steps = 10 if parser.parse_args().quick else STEPS
    missing = [package for package in ("torch", "scikit-learn") if installed(package) is None]
    if missing:
        print(f"{' and '.join(missing)} not installed: skipped (ADJOINT_ORACLE=1 has PyTorch installed)")
        return
    hold_to_one_thread()
    import torch

    import adjoint

    torch.set_num_threads(1)
    print(machine(), end="\n\n")
    rows = []
    for name, build in MODELS.items():
        theirs = losses(torch, build, steps)
        for how, made in (("eager", _itself), ("compiled", adjoint.compile)):
            apart = difference(losses(adjoint, build, steps, made), theirs)
            held = "yes" if apart <= TARGET else "NO"
            ends = f"{theirs[0]:.4f} → {theirs[-1]:.4f}"
            rows.append((f"{name}, {how}", ends, f"{apart:.1e}", f"≤ {TARGET:.0e}", held))
    print(f"{steps} steps of {BATCH} digits, PyTorch's loss in the first and the last\n")
    print(table(("model", "loss", "largest relative difference", "target", "held"), rows))


def losses(library: Any, build: Build, steps: int, made: Callable[[Any], Any] = _itself) -> list[float]:
    """Train a new model on digits for so many steps, each a call of `made(step)`; return the loss of each."""
    F = library.nn.functional
    library.manual_seed(SEED)
    model, optimizer = build(library)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = made(step)
    return [run(x, y).item() for x, y in islice(batches(library), steps)]


def batches(library: Any) -> Iterator[tuple[Any, Any]]:
    """Digits and labels without end, in a new random order for each epoch."""
    pixels, labels = digits()
    x, y = library.tensor(pixels), library.tensor(labels)
    while True:
        order = library.randperm(len(labels))
        for start in range(0, len(labels) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            yield x[batch], y[batch]


def digits_mlp(library: Any) -> tuple[Any, Any]:
    """64-128-10, with momentum."""
    nn = library.nn
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    return model, library.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def small_cnn(library: Any) -> tuple[Any, Any]:
    """Convolution, batch norm, pooling, dropout and a linear layer, with Adam."""
    nn = library.nn
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.25), nn.Linear(64, 10),
    )  # fmt: skip
    return model, library.optim.Adam(model.parameters(), lr=1e-3)


MODELS = {"digits MLP": digits_mlp, "small CNN": small_cnn}


def digits() -> tuple[Any, Any]:
    """Scikit-learn's 1,797 scanned digits as float32 from 0 to 1, (N, 1, 8, 8), and their labels, (N,)."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8), labels.astype(np.int64)


def difference(ours: list[float], theirs: list[float]) -> float:
    """The largest |ours - theirs| / |theirs|."""
    a, b = np.array(ours), np.array(theirs)
    return float(np.max(np.abs(a - b) / np.abs(b)))


if __name__ == "__main__":
    main()
