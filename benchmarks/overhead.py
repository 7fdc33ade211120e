"""What an op costs beside its arithmetic: tiny tensors, ours and PyTorch's eager mode side by side.

    python3 dev.py bench overhead [--quick]

ADJOINT_ORACLE=1 before it has PyTorch installed to compare with. `taskset -c 0` before it keeps all to one core, which
steadies the numbers. A ratio is PyTorch's median over ours: above 1, we are faster.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import adjoint

from .measure import (
    Samples,
    hold_to_one_thread,
    interleaved,
    machine,
    micro,
    milli,
    per_call,
    table,
    torch_on_one_thread,
)

CHAIN = 50  # ops in the short chain
LONG = (50_000, 100_000)  # ops in the long ones
Sample = Callable[[], float]

STARTUP = """
import sys, time
start = time.perf_counter()
import numpy
between = time.perf_counter()
import adjoint
print(between - start, time.perf_counter() - between, "llvmlite" in sys.modules)
"""


def main() -> None:
    """Measure all, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few repetitions: to see that it runs, not for numbers")
    quick = parser.parse_args().quick
    hold_to_one_thread()
    libraries = {"adjoint": adjoint, **torch_on_one_thread()}
    rounds, count = (3, 50) if quick else (41, 4000)

    print(machine(), end="\n\n")
    rows = []
    for what, target, prepare in (
        ("recorded multiply, (16,) × (16,)", "≥ 1.5", multiply),
        ("multiply under no_grad", "", multiply_unrecorded),
        (f"backward per node, {CHAIN} multiplies", "≥ 1.5", backward_of_chain),
        ("call of a module, over its forward", "", module_call),
    ):
        prepared = {name: prepare(library, count) for name, library in libraries.items()}
        check_equal({name: computed for name, (_, computed) in prepared.items()})
        samples = interleaved({name: sample for name, (sample, _) in prepared.items()}, rounds)
        rows.append(_row(what, samples, target))
    lengths = tuple(length // 100 for length in LONG) if quick else LONG
    rows += long_chains(libraries, lengths, 3 if quick else 9)
    print(table(("what", "adjoint", "torch", "torch / adjoint", "target"), rows), end="\n\n")
    print(table(("what", "median", "p10", "p90", "target"), startup(3 if quick else 41)))


def multiply(library: Any, count: int) -> tuple[Sample, Any]:
    """Both operands want a gradient, so the product is recorded."""
    x, y = operands(library)
    return per_call(lambda: x * y, count), (x * y).detach().numpy()


def multiply_unrecorded(library: Any, count: int) -> tuple[Sample, Any]:
    """The same product, where nothing is recorded."""
    x, y = operands(library)
    timed = per_call(lambda: x * y, count)

    def sample() -> float:
        with library.no_grad():
            return timed()

    return sample, (x * y).detach().numpy()


def backward_of_chain(library: Any, count: int) -> tuple[Sample, Any]:
    """A fresh chain x·y·y·… each time, both wanting gradients; only backward is timed."""
    x, y = operands(library)
    g = library.ones(16)

    def once() -> float:
        x.grad = y.grad = None
        out = x
        for _ in range(CHAIN):
            out = out * y
        start = time.perf_counter()
        out.backward(g)
        return time.perf_counter() - start

    def sample() -> float:
        times = max(1, count // CHAIN)
        return sum(once() for _ in range(times)) / times / CHAIN

    once()
    return sample, np.stack([x.grad.numpy(), y.grad.numpy()])


def module_call(library: Any, count: int) -> tuple[Sample, Any]:
    """The seconds by which m(x) exceeds m.forward(x), for a module that does nothing."""

    class Nothing(library.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x

    module, (x, _) = Nothing(), operands(library)
    called, direct = per_call(lambda: module(x), count), per_call(lambda: module.forward(x), count)
    return lambda: called() - direct(), module(x).detach().numpy()


def long_chains(libraries: dict[str, Any], lengths: tuple[int, ...], rounds: int) -> list[tuple[str, ...]]:
    """Seconds per op to record, to walk back and to free chains of these lengths, and the last over the first."""
    seconds: dict[tuple[str, int, str], list[float]] = {}
    for _ in range(rounds):
        for length in lengths:
            found = {}
            for name, library in libraries.items():
                gc.collect()
                taken, found[name] = one_long_chain(library, length)
                for phase, per_op in taken.items():
                    seconds.setdefault((phase, length, name), []).append(per_op)
            check_equal(found)
    rows = []
    for phase in ("forward", "backward", "free"):
        of = {length: {name: Samples(tuple(seconds[phase, length, name])) for name in libraries} for length in lengths}
        rows += [_row(f"{phase} per op, chain of {length:,}", samples, "") for length, samples in of.items()]
        growth = {name: of[lengths[-1]][name].median / of[lengths[0]][name].median for name in libraries}
        theirs = f"× {growth['torch']:.2f}" if "torch" in growth else "–"
        rows.append(("  the longer over the shorter", f"× {growth['adjoint']:.2f}", theirs, "", "≈ 1: linear"))
    return rows


def one_long_chain(library: Any, length: int) -> tuple[dict[str, float], Any]:
    """Seconds per op of each phase of a chain x·y·y·… of ones, and its gradients."""
    x, y = operands(library, 1.0)
    g = library.ones(16)
    clock = [time.perf_counter()]
    out = x
    for _ in range(length):
        out = out * y
    clock.append(time.perf_counter())
    out.backward(g, retain_graph=True)  # so that all of it is left to be freed
    clock.append(time.perf_counter())
    del out
    clock.append(time.perf_counter())
    forward, backward, free = ((end - start) / length for start, end in pairwise(clock))
    return {"forward": forward, "backward": backward, "free": free}, np.stack([x.grad.numpy(), y.grad.numpy()])


def startup(repeats: int) -> list[tuple[str, ...]]:
    """What `import adjoint` adds to `import numpy`, each pair in a new process; raises if that loads llvmlite."""
    numpy_takes, ours_adds = [], []
    for _ in range(repeats + 1):
        variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-c", STARTUP]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        first, second, llvmlite = done.stdout.split()
        if llvmlite == "True":
            raise SystemExit("import adjoint loads llvmlite")
        numpy_takes.append(float(first))
        ours_adds.append(float(second))
    rows = []
    named = (("import numpy", numpy_takes, ""), ("import adjoint, beyond numpy", ours_adds, "≤ 25 ms"))
    for what, seconds, target in named:
        samples = Samples(tuple(seconds[1:]))  # the first one fills the disk cache
        rows.append((what, milli(samples.median), *map(milli, samples.spread), target))
    return rows


def operands(library: Any, value: float | None = None) -> tuple[Any, Any]:
    """Two tensors of 16 float32 numbers near 1, or of `value`, that want gradients."""
    numbers = np.linspace(0.9, 1.1, 16, dtype=np.float32) if value is None else np.full(16, value, np.float32)
    x, y = library.tensor(numbers), library.tensor(numbers[::-1].copy())
    return x.requires_grad_(), y.requires_grad_()


def check_equal(found: dict[str, Any]) -> None:
    """End the program unless the libraries computed the same."""
    ours = found["adjoint"]
    for name, theirs in found.items():
        if not np.allclose(ours, theirs, rtol=1e-5, atol=0):
            raise SystemExit(f"adjoint and {name} computed different numbers: there is nothing to compare")


def _row(what: str, samples: dict[str, Samples], target: str) -> tuple[str, ...]:
    ours = samples["adjoint"].median
    if "torch" not in samples:
        return what, micro(ours), "–", "–", target
    theirs = samples["torch"].median
    return what, micro(ours), micro(theirs), f"{theirs / ours:.2f}", target


if __name__ == "__main__":
    main()
