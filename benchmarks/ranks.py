"""Two ranks on one machine: all-reduce, and data-parallel training steps, ours over MPI beside PyTorch's over gloo.

    ADJOINT_ORACLE=1 python3 dev.py bench ranks [--rounds N] [--only all-reduce mlp gpt]

Needs the extra `mpi`. Each library runs in processes of its own, one thread each, and they take turns in rounds; of a
round the least and the median time of a call count, of all rounds the least of the first and the median of the second.
Losses of the ways are compared first. The machine should be quiet: ranks that wait spin.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle
from statistics import median
from typing import Any

from .contest import ALLOWED, ROOT
from .measure import ONE_THREAD, machine, micro, table
from .workloads import gpt, mlp
from .workloads.workload import Batch, Weights, images, loaded

REPEATS = {4: 2000, 1024: 1000, 1_000_000: 200, 10_000_000: 30, 100_000_000: 8}  # by the message's bytes
GPT_SIZE = replace(gpt.NARROW_SIZE, batch=32)
MLP_SIZES = (784, 256, 128, 10)
CHECKED_STEPS = 6  # after which losses are compared


@dataclass(frozen=True)
class Load:
    """A model and its global batches, trained with AdamW."""

    title: str
    build: Callable[[Any], Any]
    weights: Callable[[], Weights]
    batches: Callable[[], list[Batch]]
    steps: int  # of a round


LOADS = {
    "mlp": Load(
        "MLP 784-256-128-10, global batch 256", lambda library: mlp.build(library, MLP_SIZES),
        lambda: mlp.weights(MLP_SIZES), lambda: images((784,), 10, 256), 100,
    ),
    "gpt": Load(
        "GPT 4 layers of 128, global batch 32 of 64", lambda library: gpt.build(library, GPT_SIZE),
        lambda: gpt.weights(GPT_SIZE), lambda: gpt.texts(GPT_SIZE), 12,
    ),
}  # fmt: skip
Times = dict[str, tuple[float, float]]  # the least and the median seconds of a call
WAYS = {
    # way: library, whether the step is compiled, ranks
    "torch, one process": ("torch", False, 1),
    "torch, two ranks": ("torch", False, 2),
    "adjoint, one process": ("adjoint", False, 1),
    "adjoint, two ranks": ("adjoint", False, 2),
    "adjoint compiled, one process": ("adjoint", True, 1),
    "adjoint compiled, two ranks": ("adjoint", True, 2),
}


def main() -> None:
    """Measure what is asked for, and print it; in a rank, do its part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=["all-reduce", *LOADS], choices=["all-reduce", *LOADS])
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        run_rank(*given.rank)
        return
    print(machine(), end="\n\n")
    if "all-reduce" in given.only:
        compare_all_reduce(given.rounds)
    for load in LOADS:
        if load in given.only:
            compare_steps(load, given.rounds)


def compare_all_reduce(rounds: int) -> None:
    """Print the times of both libraries' all-reduce between two ranks, by bytes."""
    found: dict[str, list[Times]] = {"torch": [], "adjoint": []}
    for _ in range(rounds):
        for library, taken in found.items():
            taken.append(run_ranks(library, "all-reduce", "eager", 2)["times"])
    rows = []
    for size in map(str, REPEATS):
        best = {library: min(each[size][0] for each in taken) for library, taken in found.items()}
        middle = {library: median(each[size][1] for each in taken) for library, taken in found.items()}
        cells = [f"{micro(best[library])} / {micro(middle[library])}" for library in found]
        ratios = [f"{each['torch'] / each['adjoint']:.1f}" for each in (best, middle)]
        rows.append([f"{int(size):,} bytes", *cells, " / ".join(ratios)])
    print(table(["all-reduce of two ranks", "torch, gloo", "adjoint", "torch / adjoint"], rows), end="\n\n")


def compare_steps(load: str, rounds: int) -> None:
    """Print the times of a training step: one process on the global batch, or half of it, and two ranks."""
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    halves: dict[str, list[dict[str, Any]]] = {way: [] for way, (_, _, ranks) in WAYS.items() if ranks == 1}
    for _ in range(rounds):
        for way, (library, is_compiled, ranks) in WAYS.items():
            found[way].append(run_ranks(library, load, "compiled" if is_compiled else "eager", ranks))
        for way, taken in halves.items():
            library, is_compiled, _ = WAYS[way]
            taken.append(run_ranks(library, load, "compiled" if is_compiled else "eager", 1, half=True))
    expected = found["torch, one process"][0]["loss"]
    for way, taken in found.items():
        apart = abs(taken[0]["loss"] - expected) / abs(expected)
        assert apart <= ALLOWED, f"{way}: the loss differs by {apart:.1e}"
    rows = [
        [name, *(micro(take(taken)) for take in (least, middle))]
        for name, taken in [*found.items(), *((f"{way}, half of the batch", each) for way, each in halves.items())]
    ]
    print(table([LOADS[load].title, "least", "median"], rows))
    for way in ("torch", "adjoint", "adjoint compiled"):
        alone, half, both = found[f"{way}, one process"], halves[f"{way}, one process"], found[f"{way}, two ranks"]
        print(
            f"{way}: two ranks are {middle(alone) / middle(both):.2f} times as fast as one process on the same batch; "
            f"beside half of it alone they add {micro(least(both) - least(half))}"
        )
    torch, ours = found["torch, two ranks"], found["adjoint compiled, two ranks"]
    print(
        f"torch / adjoint compiled, two ranks: {least(torch) / least(ours):.2f} / {middle(torch) / middle(ours):.2f}\n"
    )


def least(taken: list[dict[str, Any]]) -> float:
    """Return the least seconds of a step."""
    return min(float(each["times"]["step"][0]) for each in taken)


def middle(taken: list[dict[str, Any]]) -> float:
    """Return the median seconds of a step."""
    return median(float(each["times"]["step"][1]) for each in taken)


def run_ranks(library: str, work: str, how: str, count: int, *, half: bool = False) -> dict[str, Any]:
    """Return what rank 0 of so many processes has measured."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    processes = []
    for rank in range(count):
        told = {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "ADJOINT_NUM_THREADS": "1", "HALF": "1" if half else "",
        }  # fmt: skip
        command = [sys.executable, "-m", "benchmarks.ranks", "--rank", library, work, how]
        processes.append(
            subprocess.Popen(command, cwd=ROOT, env={**os.environ, **ONE_THREAD, **told}, stdout=subprocess.PIPE)
        )
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"{library}, {work}, {how}: a rank has failed, see above")
    found: dict[str, Any] = json.loads(outputs[0])
    return found


def run_rank(name: str, work: str, how: str) -> None:
    """Do a rank's part, and print what it took if it is rank 0."""
    library = importlib.import_module(name)
    library.set_num_threads(1)
    dist = importlib.import_module(f"{name}.distributed")
    if int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("gloo")
    found = time_all_reduce(library, dist) if work == "all-reduce" else time_step(library, LOADS[work], how)
    if os.environ["RANK"] == "0":
        print(json.dumps(found))
    if dist.is_initialized():
        dist.destroy_process_group()


def time_all_reduce(library: Any, dist: Any) -> dict[str, Any]:
    """Return the times of all-reduce by bytes."""
    times: Times = {}
    for size, count in REPEATS.items():
        x = library.zeros(size // 4)
        times[str(size)] = time_calls(lambda x=x: dist.all_reduce(x), count)
    return {"times": times}


def time_step(library: Any, load: Load, how: str) -> dict[str, Any]:
    """Return the times of a training step, and the loss of the first global batch after some steps."""
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    parts = 2 if os.environ["HALF"] else count
    batches = [[library.tensor(x[rank * len(x) // parts :][: len(x) // parts]) for x in b] for b in load.batches()]
    model = bare = loaded(library, load.build(library), load.weights())
    if count > 1:
        model = library.nn.parallel.DistributedDataParallel(bare)
    optimizer = library.optim.AdamW(model.parameters(), lr=1e-3)

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        scores = model(x)
        return library.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        return loss

    call = library.compile(step) if how == "compiled" else step
    turns = cycle(batches)
    for _ in range(CHECKED_STEPS):
        call(*next(turns))
    with library.no_grad():
        loss = float(loss_of(bare, *map(library.tensor, load.batches()[0])))
    return {"times": {"step": time_calls(lambda: call(*next(turns)), load.steps)}, "loss": loss}


def time_calls(call: Callable[[], object], count: int) -> tuple[float, float]:
    """Return the least and the median seconds of a call."""
    for _ in range(3):
        call()
    seconds = []
    for _ in range(count):
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return min(seconds), median(seconds)


if __name__ == "__main__":
    main()
