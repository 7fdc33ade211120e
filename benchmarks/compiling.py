"""What compiling costs: the first call of a transformer's training step, guards at each call, memory left behind.

    python3 dev.py bench compiling [--quick]

The first calls run in processes of their own: one with an empty kernel cache, one with the cache that it left.
"""

from __future__ import annotations

import argparse
import gc
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim

from .measure import hold_to_one_thread, interleaved, machine, micro, per_call, table

LAYERS, WIDTH, HEADS, LENGTH, BATCH, SYMBOLS = 4, 128, 4, 64, 8, 65


def main() -> None:
    """Measure all, and print three tables; with `--first` print the seconds of one first call."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one layer, few rounds: to see that it runs")
    parser.add_argument("--first", type=int, metavar="LAYERS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    hold_to_one_thread()
    if given.first is not None:
        print(first_call(given.first))
        return
    print(machine(), end="\n\n")
    layers = 1 if given.quick else LAYERS
    print(table((f"first call, {layers}-layer transformer step", "seconds", "target"), first_calls(layers)), end="\n\n")
    print(table(("a call with 20 captured tensors", "time", "guards", "target"), guards(given.quick)), end="\n\n")
    print(
        table(("kept of a compiled function that was dropped", "KB", "target"), left_behind(20 if given.quick else 200))
    )


class Block(nn.Module):
    """Attention and a two-layer network, each after a normalisation and beside a residual path."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.widen, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any, mask: Any) -> Any:
        """(B, T, D) to (B, T, D)."""
        b, t, d = x.shape
        parts = self.attend(self.first(x)).split(d, dim=2)
        q, k, v = (part.view(b, t, HEADS, d // HEADS).transpose(1, 2) for part in parts)  # (B, H, T, D/H)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(d // HEADS)
        weights = F.softmax(scores.masked_fill(mask, -math.inf), dim=-1)
        x = x + self.project((weights @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.narrow(F.gelu(self.widen(self.second(x))))


class Transformer(nn.Module):
    """A small language model over symbols."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.symbols, self.places = nn.Embedding(SYMBOLS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, SYMBOLS)
        self.register_buffer("mask", ad.triu(ad.ones(LENGTH, LENGTH), 1).bool())

    def forward(self, text: Any) -> Any:
        """(B, T) symbols to (B, T, V) scores of the next."""
        x = self.symbols(text) + self.places(ad.arange(text.shape[1]))
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.last(x))


def first_call(layers: int) -> float:
    """Seconds of the first call of a whole step: AdamW, clipping."""
    ad.manual_seed(0)
    model = Transformer(layers)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)

    @ad.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).reshape(-1, SYMBOLS), y.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    x, y = ad.randint(0, SYMBOLS, (BATCH, LENGTH)), ad.randint(0, SYMBOLS, (BATCH, LENGTH))
    start = time.perf_counter()
    step(x, y)
    return time.perf_counter() - start


def first_calls(layers: int) -> list[tuple[str, ...]]:
    """Cold, and from the disk cache, each in a new process."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, target in (("cold", "<= 3 s"), ("from the disk cache", "<= 0.5 s")):
            command = [sys.executable, "-m", "benchmarks.compiling", "--first", str(layers)]
            variables = {**os.environ, "ADJOINT_CACHE_DIR": folder}
            done = subprocess.run(command, env=variables, capture_output=True, encoding="utf-8", check=True)
            rows.append((name, f"{float(done.stdout):.2f}", target))
    return rows


def guards(quick: bool) -> list[tuple[str, ...]]:
    """The time of a small step by where its tensors are kept; less that of one which captures nothing."""
    listed = [ad.randn(4) for _ in range(20)]
    holder = nn.Module()
    for i in range(20):
        setattr(holder, f"p{i}", nn.Parameter(ad.randn(4)))
    cells = {f"w{i}": ad.randn(4) for i in range(20)}

    def from_list(x: Any) -> Any:
        for w in listed:
            x = x + w
        return x

    def from_module(x: Any) -> Any:
        for p in holder.parameters():
            x = x + p
        return x

    def from_dict(x: Any) -> Any:
        for w in cells.values():
            x = x + w
        return x

    steps: dict[str, Callable[[Any], Any]] = {
        "nothing captured": lambda x: x + 1, "a list": from_list, "a dict": from_dict, "a module": from_module,
    }  # fmt: skip
    x = ad.ones(4)
    with ad.no_grad():
        compiled = {name: ad.compile(step) for name, step in steps.items()}
        calls = {name: per_call(lambda f=f: f(x), 200 if quick else 2000) for name, f in compiled.items()}  # type: ignore[misc]
        found = interleaved(calls, 5 if quick else 25)
    least = found["nothing captured"].median
    return [
        (name, micro(samples.median), micro(samples.median - least), "<= 5 µs" if samples.median > least else "")
        for name, samples in found.items()
    ]


def left_behind(count: int) -> list[tuple[str, ...]]:
    """Resident memory per function that was compiled, called and dropped."""

    def one(i: int) -> None:
        w = ad.randn(8)
        ad.compile(lambda x: ((x * w).tanh() + i % 7).sum())(ad.ones(8))

    for i in range(count // 2):
        one(i)
    gc.collect()
    before = _resident()
    for i in range(count):
        one(i)
    gc.collect()
    return [(f"{count} functions", f"{(_resident() - before) / count / 1024:.1f}", "< 20")]


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
