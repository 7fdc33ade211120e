"""Trains the demo's classifier on several ranks, and compares the losses with those of one process.

    python3 dev.py demo --ranks N [--epochs N] [--seed N]

The training is that of one process, but for three lines: the group of ranks, a sampler that gives each its part of the
batch, and the model in `DistributedDataParallel`. Batches are as large on all ranks together as on one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from digits import Classifier, load_digits

import adjoint as ad
import adjoint.distributed as dist
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.data import DataLoader, DistributedSampler, TensorDataset

BATCH = 32  # of all ranks together
ALLOWED = 1e-4  # relative difference of two losses


def train(epochs: int, seed: int) -> list[float]:
    """Train a new classifier on the ranks that there are, and return the loss of each step over the whole batch."""
    dist.init_process_group()
    digits = load_digits()
    count = len(digits.train_x) // BATCH * BATCH  # whole batches, which any number of ranks divides
    data = TensorDataset(digits.train_x[:count], digits.train_y[:count])
    sampler = DistributedSampler(data, seed=seed)
    loader = DataLoader(data, batch_size=BATCH // dist.get_world_size(), sampler=sampler)

    ad.manual_seed(seed)
    model = Classifier()
    model.dropout = nn.Identity()  # each rank would drop other features than one process does
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # statistics of the whole batch
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)

    @ad.compile
    def step(x: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = step(x, y).clone()
            dist.all_reduce(loss, dist.ReduceOp.AVG)
            losses.append(loss.item())
    dist.destroy_process_group()
    return losses


def train_elsewhere(ranks: int, options: argparse.Namespace) -> list[float]:
    """Return the losses of this program on new processes: one alone, or several by the launcher."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "losses.json")
        command = [sys.executable, "-m", "adjoint.distributed.run", "--adjoint", f"--nproc-per-node={ranks}", __file__]
        given = ["--epochs", str(options.epochs), "--seed", str(options.seed), "--losses", str(told)]
        began = time.perf_counter()
        done = subprocess.run([*command, *given], check=False)
        if done.returncode:
            sys.exit(done.returncode)
        losses: list[float] = json.loads(told.read_text(encoding="utf-8"))
    name = "one process" if ranks == 1 else f"{ranks} ranks"
    print(f"{name:12} {len(losses)} steps in {time.perf_counter() - began:.1f} s, last loss {losses[-1]:.6f}")
    return losses


def main() -> int:
    """Compare, or be one of the ranks; return 1 if the losses differ."""
    options = parse()
    if options.losses:
        losses = train(options.epochs, options.seed)
        if os.environ["RANK"] == "0":
            options.losses.write_text(json.dumps(losses), encoding="utf-8")
        return 0
    alone, together = (train_elsewhere(ranks, options) for ranks in (1, options.ranks))
    worst = max(abs(a - b) / a for a, b in zip(alone, together, strict=True))
    print(f"losses       differ by at most {worst:.1e}, relatively; {ALLOWED:.0e} is allowed")
    return int(not worst <= ALLOWED)  # NaN is not


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train on scanned digits on several ranks, and on one process.")
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="processes that train together (2)")
    parser.add_argument("--epochs", type=int, default=4, metavar="N", help="how often to go through the data (4)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="where the random numbers begin (0)")
    parser.add_argument("--losses", type=Path, help=argparse.SUPPRESS)  # a rank writes them here
    options = parser.parse_args()
    if options.ranks < 1 or BATCH % options.ranks:
        parser.error(f"--ranks must divide {BATCH}, the size of a batch, and {options.ranks} does not")
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, not {options.epochs}")
    return options


if __name__ == "__main__":
    sys.exit(main())
