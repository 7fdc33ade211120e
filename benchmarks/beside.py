"""Training steps beside other work: how much slower they get beside busy loops, and in several processes at once.

    ADJOINT_ORACLE=1 python3 dev.py bench beside [--loops N] [--rounds N] [--seconds S] [--only digits cnn gpt]

Each way of a workload has a process of its own. These take turns: in each round every one runs for some tenths of a
second on the machine as it is, then beside busy loops. What counts is the mean time of a step in such a turn, stalls
and all, and of the rounds the median. The ways that use one thread show how quiet the machine was. A slowdown is the
time beside the loops over that without. Last, four processes of one way run at once: N of them on C cores need N / C
times as long as one that has all cores, if its threads lose nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import chain, cycle
from statistics import median
from typing import Any

from .contest import ROOT
from .measure import ONE_THREAD, machine, milli, table
from .workloads import cnn, gpt
from .workloads.workload import Batch, images

WARM_UP_SECONDS = 1.0
BUSY = "while True: pass"
WAYS = {  # library, whether the step is compiled, whether it is held to one thread
    "adjoint": ("adjoint", False, False),
    "adjoint, one thread": ("adjoint", False, True),
    "adjoint compiled": ("adjoint", True, False),
    "adjoint compiled, one thread": ("adjoint", True, True),
    "torch": ("torch", False, False),
    "torch, one thread": ("torch", False, True),
}


@dataclass(frozen=True)
class Load:
    """A model, its batches, and its loss."""

    title: str
    build: Callable[[Any], Any]
    batches: Callable[[], list[Batch]]
    symbols: int  # of the scores


def build_digits(library: Any) -> Any:
    """The model of examples/digits.py."""
    nn = library.nn
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.GELU(), nn.AvgPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.GELU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Dropout(0.25), nn.Linear(128, 10),
    )  # fmt: skip


LENET = cnn.LeNet(28, (16, 32), 128, 64)
GPT_SIZE = replace(gpt.NARROW_SIZE, layers=2)
LOADS = {
    "digits": Load("CNN of the demo, batch 32 of 8×8", build_digits, lambda: images((1, 8, 8), 10, 32), 10),
    "cnn": Load(
        "LeNet, batch 64 of 28×28", lambda library: cnn.build(library, LENET),
        lambda: images((1, 28, 28), 10, 64), 10,
    ),
    "gpt": Load(
        "GPT 2 layers of 128, batch 12 of 64", lambda library: gpt.build(library, GPT_SIZE),
        lambda: gpt.texts(GPT_SIZE), 65,
    ),
}  # fmt: skip


def main() -> None:
    """Measure what is asked for, and print it; in a child, do its part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", type=int, default=os.cpu_count() or 1, help="busy loops; the number of processors")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--only", nargs="+", default=list(LOADS), choices=list(LOADS))
    parser.add_argument("--processes", type=int, default=4, help="of one way at once")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run_child(*given.child)
        return
    print(machine(), end="\n\n")
    ways = [way for way in given.ways if find_spec(WAYS[way][0])]
    for load in given.only:
        compare_ways(load, ways, given)


def compare_ways(load: str, ways: list[str], given: argparse.Namespace) -> None:
    """Print the time of a step for each way: alone, beside busy loops, and as one of several processes."""
    quiet: dict[str, list[float]] = {way: [] for way in ways}
    beside: dict[str, list[float]] = {way: [] for way in ways}
    crowd: dict[str, list[float]] = {way: [] for way in ways}
    with children(load, ways, given.processes) as started:
        for _ in range(given.rounds):
            for way in ways:
                quiet[way].append(take_turn([started[way][0]], given.seconds))
            with busy_loops(given.loops):
                for way in ways:
                    beside[way].append(take_turn([started[way][0]], given.seconds))
            for way in ways:
                crowd[way].append(take_turn(started[way], given.seconds))
    rows = []
    for way in ways:
        alone, loaded, many = (median(each[way]) for each in (quiet, beside, crowd))
        slowest = max(beside[way])
        ratios = [f"{each / alone:.2f}" for each in (loaded, many)]
        rows.append([way, milli(alone), milli(loaded), milli(slowest), milli(many), *ratios])
    heads = [
        "a step takes",
        "alone",
        f"{given.loops} loops",
        "worst",
        f"{given.processes} at once",
        "slowdown",
        "in a crowd",
    ]
    print(LOADS[load].title, table(heads, rows), sep="\n", end="\n\n", flush=True)


@contextmanager
def children(load: str, ways: list[str], processes: int) -> Iterator[dict[str, list[subprocess.Popen[str]]]]:
    """Processes that wait for their turns, as many for each way as are to run at once."""
    started: dict[str, list[subprocess.Popen[str]]] = {}
    try:
        for way in ways:
            library, is_compiled, is_single = WAYS[way]
            mode = "compiled" if is_compiled else "eager"
            variables = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
            variables.pop("ADJOINT_NUM_THREADS", None)
            command = [sys.executable, "-m", "benchmarks.beside", "--child", library, mode, load]
            started[way] = [
                subprocess.Popen(
                    command, env={**variables, **(ONE_THREAD if is_single else {})}, cwd=ROOT, text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                )
                for _ in range(processes)
            ]  # fmt: skip
            for each in started[way]:
                assert each.stdout is not None
                assert each.stdout.readline() == "ready\n"
        yield started
    finally:
        for each in chain.from_iterable(started.values()):
            each.kill()
            each.wait()


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Processes that do nothing, and that all the time."""
    loops = [subprocess.Popen([sys.executable, "-S", "-c", BUSY]) for _ in range(count)]
    time.sleep(0.2)
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def take_turn(processes: list[subprocess.Popen[str]], seconds: float) -> float:
    """Have these processes run at the same time; return the mean of what they say a step took."""
    for each in processes:
        assert each.stdin is not None
        each.stdin.write(f"{seconds}\n")
        each.stdin.flush()
    answers = []
    for each in processes:
        assert each.stdout is not None
        answers.append(float(each.stdout.readline()))
    return sum(answers) / len(answers)


def run_child(name: str, mode: str, load: str) -> None:
    """Run steps for as many seconds as each line of the input says, and answer with the mean seconds of one."""
    library = import_module(name)
    library.manual_seed(0)
    chosen = LOADS[load]
    model = chosen.build(library)
    optimizer = library.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = library.nn.functional.cross_entropy(model(x).reshape(-1, chosen.symbols), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    if mode == "compiled":
        step = library.compile(step)
    batches = cycle([tuple(map(library.tensor, batch)) for batch in chosen.batches()])

    def run(seconds: float) -> float:
        start = now = time.perf_counter()
        count = 0
        while now < start + seconds:
            step(*next(batches)).item()
            count += 1
            now = time.perf_counter()
        return (now - start) / count

    run(WARM_UP_SECONDS)
    print("ready", flush=True)
    with suppress(KeyboardInterrupt):
        for line in sys.stdin:
            print(run(float(line)), flush=True)


if __name__ == "__main__":
    main()
