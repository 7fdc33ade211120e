"""Trains a small convolutional classifier on scanned digits, first eagerly, then compiled, and writes a page about it.

    python3 dev.py demo [--epochs N] [--seed N] [--out DIR]

The two runs are the same lines of Python: `train` differs in whether `step` goes through `ad.compile`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import report
from progress import Progress

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.data import DataLoader, TensorDataset

BATCH = 32
SPLIT = 0  # the seed of the split into training and test digits, which is the same in every run
NEEDED = 0.97  # accuracy
ALLOWED = 1e-4  # relative difference of two losses


class Classifier(nn.Module):
    """Two convolutions and a linear layer: 8×8 pixels to the scores of ten digits.

    Smooth all through: GELU and averages, where ReLU and a maximum would do as well. At a kink, the last bit of a
    number decides which way a gradient goes, and two runs that round differently part for good.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)  # no bias: the normalisation would take it away again
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(32)
        self.pool = nn.AvgPool2d(2)
        self.dropout = nn.Dropout(0.25)
        self.head = nn.Linear(32 * 2 * 2, 10)

    def forward(self, x: ad.Tensor) -> ad.Tensor:  # (B, 1, 8, 8)
        x = F.gelu(self.norm1(self.conv1(x)))
        x = self.pool(x)  # (B, 16, 4, 4)
        x = F.gelu(self.norm2(self.conv2(x)))
        x = self.pool(x)  # (B, 32, 2, 2)
        x = self.dropout(x.flatten(1))
        return self.head(x)  # (B, 10)


@dataclass
class Digits:
    """Images (N, 1, 8, 8) from 0 to 1 and their labels (N,), a fifth of them held out."""

    train_x: ad.Tensor
    train_y: ad.Tensor
    test_x: ad.Tensor
    test_y: ad.Tensor


@dataclass
class Run:
    """What a training run leaves behind."""

    name: str
    losses: list[float] = field(default_factory=list)  # one for each step
    seconds: list[float] = field(default_factory=list)  # likewise, by the clock on the wall
    first_call: float = 0.0  # seconds of processor time of the first step
    accuracies: list[float] = field(default_factory=list)  # one for each epoch
    probabilities: Any = None  # (test digits, 10), at the end
    compilations: int = 0
    kernels: list[dict[str, Any]] = field(default_factory=list)
    explained: str = ""

    def fastest(self) -> float:
        """Seconds of the fastest step, to which other programs on the machine have added the least."""
        return min(self.seconds)


def train(digits: Digits, epochs: int, seed: int, compiled: bool) -> Run:
    """Train a new classifier. The seed fixes its initial weights, the order of the batches and what dropout drops."""
    run = Run("compiled" if compiled else "eager")
    ad.manual_seed(seed)
    model = Classifier()
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    loader = DataLoader(TensorDataset(digits.train_x, digits.train_y), batch_size=BATCH, shuffle=True)

    def step(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = ad.compile(step)

    progress = Progress(f"{run.name:8}", epochs, len(loader))
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            start, worked = time.perf_counter(), time.process_time()
            loss = step(x, y).item()
            run.seconds.append(time.perf_counter() - start)
            run.first_call = run.first_call or time.process_time() - worked
            run.losses.append(loss)
            progress.advance(loss)
            if len(run.losses) == 1 and hasattr(step, "compilations"):  # the program for a full batch, made just now
                run.kernels, run.explained = step.kernels, str(step.explain())
        scheduler.step()
        run.probabilities = predict(model, digits.test_x)
        run.accuracies.append(accuracy(run, digits))
        progress.end_epoch(float(np.mean(run.losses[-len(loader) :])), run.accuracies[-1])
    run.compilations = getattr(step, "compilations", 0)
    return run


def predict(model: nn.Module, x: ad.Tensor) -> Any:
    """Probabilities of the ten digits for each image, as an array (N, 10)."""
    model.eval()
    with ad.no_grad():
        return F.softmax(model(x), dim=1).numpy()


def accuracy(run: Run, digits: Digits) -> float:
    """Share of the test digits that are recognised."""
    return float((run.probabilities.argmax(1) == digits.test_y.numpy()).mean())


def load_digits() -> Digits:
    """Scikit-learn's 1,797 scanned digits; a permutation with a seed of its own chooses the fifth to hold out."""
    try:
        from sklearn import datasets
    except ImportError:
        sys.exit("The digits come with scikit-learn, which is not installed: pip install scikit-learn")
    data = datasets.load_digits()
    x = ad.tensor(data.images[:, None] / 16, dtype=ad.float32)
    y = ad.tensor(data.target, dtype=ad.int64)
    ad.manual_seed(SPLIT)
    order = ad.randperm(len(x))
    test, rest = order[: len(x) // 5], order[len(x) // 5 :]
    return Digits(x[rest], y[rest], x[test], y[test])


def compare(eager: Run, compiled: Run) -> list[float]:
    """|a − b| / |a| for the losses of each step."""
    return [abs(a - b) / max(abs(a), 1e-30) for a, b in zip(eager.losses, compiled.losses, strict=True)]


def summarize(eager: Run, compiled: Run, differences: Sequence[float]) -> None:
    """Print what the two runs have to say about each other."""
    slow, fast = eager.fastest(), compiled.fastest()
    agreeing = int((eager.probabilities.argmax(1) == compiled.probabilities.argmax(1)).sum())
    print()
    print(f"loss curves      differ by at most {np.max(differences):.1e}, relatively, over {len(differences)} steps")
    print(f"predictions      the same for {agreeing} of {len(eager.probabilities)} test digits")
    if compiled.compilations:
        print(f"first call       {compiled.first_call:.2f} s of processor time: traced, compiled or found on disk, run")
        print(f"programs made    {compiled.compilations}: for full batches of {BATCH}, and for the last, smaller one")
    else:
        print("nothing compiled llvmlite is not installed (pip install llvmlite), so both runs were eager")
    print(f"fastest step     {slow * 1e3:.2f} ms eager, {fast * 1e3:.2f} ms compiled")
    print(f"speed ratio      {slow / fast:.1f}, on this machine")


def verdict(eager: Run, compiled: Run, differences: Sequence[float]) -> list[str]:
    """What went wrong, in words."""
    wrong = [
        f"the {run.name} run ends at a test accuracy of {run.accuracies[-1]:.1%}, below {NEEDED:.0%}"
        for run in (eager, compiled)
        if run.accuracies[-1] < NEEDED
    ]
    if not np.max(differences) <= ALLOWED:  # NaN is not
        wrong.append(f"the loss curves differ by {np.max(differences):.1e}, relatively; {ALLOWED:.0e} is allowed")
    return wrong


def main() -> int:
    """Train twice, compare, write the page; 1 if the runs disagree or recognise too little."""
    options = parse()
    digits = load_digits()
    print(f"{len(digits.train_x)} digits to learn from, {len(digits.test_x)} held out; {options.epochs} epochs\n")
    eager = train(digits, options.epochs, options.seed, compiled=False)
    compiled = train(digits, options.epochs, options.seed, compiled=True)
    differences = compare(eager, compiled)
    summarize(eager, compiled, differences)
    page = options.out / "digits.html"
    page.write_text(report.page(digits, eager, compiled, differences), encoding="utf-8")
    print(f"page             {page}")
    wrong = verdict(eager, compiled, differences)
    for complaint in wrong:
        print(f"digits.py: {complaint}", file=sys.stderr)
    return 1 if wrong else 0


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train on scanned digits, eagerly and compiled, and tell about it.")
    parser.add_argument("--epochs", type=int, default=10, metavar="N", help="how often to go through the data (10)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="where the random numbers begin (0)")
    parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where digits.html goes (here)")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, not {options.epochs}")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out: {error.strerror}: {options.out}")
    options.out = options.out.resolve()
    return options


if __name__ == "__main__":
    sys.exit(main())
