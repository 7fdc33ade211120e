"""What a recorded graph costs at scale: a million ops in a row, thousands of slices, thousands of steps.

    python3 dev.py bench graph [--quick]

ADJOINT_ORACLE=1 before it has PyTorch installed to compare the slices with. Every phase is measured at two sizes, since
what matters is that the cost of one op does not grow with their number.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint

from .measure import Samples, hold_to_one_thread, installed, interleaved, machine, micro, milli, table


def main() -> None:
    """Measure all, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: to see that it runs, not for numbers")
    quick = parser.parse_args().quick
    hold_to_one_thread()
    print(machine(), end="\n\n")
    ops, rows, steps = (10_000, 200, 200) if quick else (1_000_000, 5_000, 10_000)
    print(table(("what", "half", "whole", "whole / half", "target"), [*chains(ops), *slices(rows)]), end="\n\n")
    print(table(("what", "bytes", "target"), memory(ops // 10, ops, steps)))


def chains(ops: int) -> list[tuple[str, ...]]:
    """Microseconds per op to record a chain of sines, walk it back and free it, at half the length and the whole."""
    found = {}
    for length in (ops // 2, ops):
        runs = [one_chain(length) for _ in range(3)]
        found[length] = [min(phase) for phase in zip(*runs, strict=True)]
    half, whole = found[ops // 2], found[ops]
    return [
        (f"{phase}, {ops:,} ops, per op", micro(a), micro(b), f"{b / a:.2f}", "≈ 1: linear")
        for phase, a, b in zip(("forward", "backward", "free"), half, whole, strict=True)
    ]


def one_chain(length: int) -> tuple[float, float, float]:
    """Seconds per op of each phase, the collector off: it is not what is measured."""
    x = adjoint.tensor(1.0, dtype=adjoint.float64, requires_grad=True)
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    y = x
    for _ in range(length):
        y = y.sin()
    recorded = time.perf_counter()
    y.backward(retain_graph=True)
    walked = time.perf_counter()
    del y
    freed = time.perf_counter()
    gc.enable()
    return (recorded - start) / length, (walked - recorded) / length, (freed - walked) / length


def slices(rows: int) -> list[tuple[str, ...]]:
    """Seconds of the backward pass of `sum(x[i] for i in range(n))`, x of n rows, at n and 2n."""
    libraries: dict[str, Any] = {"adjoint": adjoint}
    if installed("torch") is not None:
        import torch

        torch.set_num_threads(1)
        libraries["torch"] = torch
    samples: dict[int, dict[str, Samples]] = {
        n: interleaved({name: backward_of_slices(library, n) for name, library in libraries.items()}, 5)
        for n in (rows, 2 * rows)
    }
    result = []
    for name in libraries:
        half, whole = (samples[n][name].median for n in (rows, 2 * rows))
        target = "≤ 2, and below torch" if name == "adjoint" else ""
        result.append(
            (f"backward of {2 * rows:,} slices, {name}", milli(half), milli(whole), f"{whole / half:.2f}", target)
        )
    return result


def backward_of_slices(library: Any, n: int) -> Callable[[], float]:
    """A candidate: the seconds of one backward pass."""
    values = np.linspace(0.0, 1.0, 4 * n, dtype=np.float32).reshape(n, 4)

    def sample() -> float:
        x = library.tensor(values).requires_grad_()
        total = sum(x[i] for i in range(n)).sum()
        start = time.perf_counter()
        total.backward()
        taken = time.perf_counter() - start
        if not (x.grad.numpy() == 1.0).all():
            raise SystemExit(f"{getattr(library, '__name__', library)} computed another gradient")
        return taken

    return sample


def memory(ops: int, length: int, steps: int) -> list[tuple[str, ...]]:
    """Bytes of a recorded node without its array, of the peak over the graph, and of growth over training steps."""
    array = sys.getsizeof(np.array(1.0)) + 16  # the object, and what malloc takes for one number
    x = adjoint.tensor(1.0, dtype=adjoint.float64, requires_grad=True)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    y = x
    for _ in range(ops):
        y = y.sin()
    graph = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.reset_peak()
    y.backward()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    del y
    return [
        (f"one node of a chain of {ops:,} 0-d ops, its array left out", f"{graph / ops - array:.0f}", "≤ 600"),
        ("peak of the backward pass, over the graph itself", f"× {peak / graph:.2f}", "≤ 1.5"),
        (f"growth over {steps:,} training steps, collector off", f"{growth(steps):,.0f}", "< 1,000,000"),
    ]


def growth(steps: int) -> float:
    """Bytes that training leaves behind, second derivatives included, where nothing collects cycles."""
    weight = adjoint.tensor(np.full((8, 8), 0.1, np.float32), requires_grad=True)
    x = adjoint.ones(4, 8)

    def step() -> None:
        loss = (x @ weight).tanh().square().sum()
        (g,) = adjoint.autograd.grad(loss, weight, create_graph=True)
        (loss + g.square().sum()).backward()
        with adjoint.no_grad():
            weight.sub_(1e-3 * weight.grad)  # type: ignore[operator]
        weight.grad = None

    gc.collect()
    gc.disable()
    for _ in range(100):
        step()
    tracemalloc.start()
    step()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(steps):
        step()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    gc.enable()
    return after - before


if __name__ == "__main__":
    main()
