"""What eager programs pay: the functions that they call most on (32, 32) float32, and two whole training steps.

    python3 dev.py bench eager [--quick] [NAME…]

ADJOINT_ORACLE=1 before it has PyTorch installed to compare with. `taskset -c 0` before it keeps all to one core. Each
function is called alone, and with operands that want gradients, where it can be recorded. Seconds of work of this
thread; a ratio is PyTorch's median over ours: above 1, we are faster.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import adjoint

from .measure import Samples, hold_to_one_thread, machine, micro, table, torch_on_one_thread
from .workloads.gpt import NARROW_SIZE, texts
from .workloads.gpt import build as build_gpt
from .workloads.workload import images

SIDE = 32
LEAST, MEDIAN, STEP = 0.4, 1.0, 0.8  # the targets
BURST, WARM = 5e-4, 0.1  # seconds of calls in a row, and before these
Call = Callable[[], object]
Made = Callable[[Any, Any], Call]  # from a library and its operands to a call


class Operands:
    """What the functions are called on; `x`, `y`, `w`, `b` want gradients if `recorded`."""

    def __init__(self, library: Any, recorded: bool) -> None:
        library.manual_seed(0)
        n = SIDE
        self.F = library.nn.functional
        self.x = library.rand(n, n) + 0.5
        self.y = library.rand(n, n) + 0.5
        self.w, self.b = library.rand(n, n), library.rand(n)
        self.batch = library.rand(4, n, n)
        self.labels = library.randint(0, n, (n,))
        self.index = library.randint(0, n, (n, n))
        self.mask = self.x > 1.0
        self.total = library.rand(n, n)
        self.one = library.tensor(3.0)
        if recorded:
            for each in (self.x, self.y, self.w, self.b, self.batch):
                each.requires_grad_()


# What can be recorded, by the name that programs use.
RECORDED: dict[str, Made] = {
    "x + y": lambda lib, o: lambda: o.x + o.y,
    "x - y": lambda lib, o: lambda: o.x - o.y,
    "x * y": lambda lib, o: lambda: o.x * o.y,
    "x / y": lambda lib, o: lambda: o.x / o.y,
    "2 * x": lambda lib, o: lambda: 2 * o.x,
    "x ** 2": lambda lib, o: lambda: o.x**2,
    "-x": lambda lib, o: lambda: -o.x,
    "exp": lambda lib, o: lambda: lib.exp(o.x),
    "log": lambda lib, o: lambda: lib.log(o.x),
    "sqrt": lambda lib, o: lambda: lib.sqrt(o.x),
    "abs": lambda lib, o: lambda: o.x.abs(),
    "tanh": lambda lib, o: lambda: lib.tanh(o.x),
    "sigmoid": lambda lib, o: lambda: lib.sigmoid(o.x),
    "relu": lambda lib, o: lambda: o.F.relu(o.x),
    "gelu": lambda lib, o: lambda: o.F.gelu(o.x),
    "softmax": lambda lib, o: lambda: o.F.softmax(o.x, dim=-1),
    "log_softmax": lambda lib, o: lambda: o.F.log_softmax(o.x, dim=-1),
    "clamp": lambda lib, o: lambda: o.x.clamp(0.7, 1.3),
    "where": lambda lib, o: lambda: lib.where(o.mask, o.x, o.y),
    "sum": lambda lib, o: lambda: o.x.sum(),
    "sum(dim)": lambda lib, o: lambda: o.x.sum(dim=1),
    "mean": lambda lib, o: lambda: o.x.mean(),
    "max(dim)": lambda lib, o: lambda: o.x.max(1),
    "std": lambda lib, o: lambda: o.x.std(),
    "var(dim)": lambda lib, o: lambda: o.x.var(dim=-1, keepdim=True),
    "x @ y": lambda lib, o: lambda: o.x @ o.y,
    "mm": lambda lib, o: lambda: lib.mm(o.x, o.y),
    "bmm": lambda lib, o: lambda: lib.bmm(o.batch, o.batch),
    "linear": lambda lib, o: lambda: o.F.linear(o.x, o.w, o.b),
    "transpose": lambda lib, o: lambda: o.x.transpose(0, 1),
    "permute": lambda lib, o: lambda: o.x.permute(1, 0),
    "reshape": lambda lib, o: lambda: o.x.reshape(16, 64),
    "view": lambda lib, o: lambda: o.x.view(-1, 16),
    "unsqueeze": lambda lib, o: lambda: o.x.unsqueeze(0),
    "expand": lambda lib, o: lambda: o.b.expand(32, 32),
    "cat": lambda lib, o: lambda: lib.cat([o.x, o.y], dim=1),
    "stack": lambda lib, o: lambda: lib.stack([o.x, o.y]),
    "chunk": lambda lib, o: lambda: o.x.chunk(2, dim=1),
    "split": lambda lib, o: lambda: o.x.split(16, dim=1),
    "x[0]": lambda lib, o: lambda: o.x[0],
    "x[:, 1:]": lambda lib, o: lambda: o.x[:, 1:],
    "x[labels]": lambda lib, o: lambda: o.x[o.labels],
    "x[mask]": lambda lib, o: lambda: o.x[o.mask],
    "gather": lambda lib, o: lambda: o.x.gather(1, o.index),
    "masked_fill": lambda lib, o: lambda: o.x.masked_fill(o.mask, 0.0),
    "clone": lambda lib, o: lambda: o.x.clone(),
    "to(dtype)": lambda lib, o: lambda: o.x.to(lib.float64),
    "cross_entropy": lambda lib, o: lambda: o.F.cross_entropy(o.x, o.labels),
    "mse_loss": lambda lib, o: lambda: o.F.mse_loss(o.x, o.y),
    "layer_norm": lambda lib, o: lambda: o.F.layer_norm(o.x, (SIDE,), o.b, o.b),
    "embedding": lambda lib, o: lambda: o.F.embedding(o.labels, o.w),
    "dropout": lambda lib, o: lambda: o.F.dropout(o.x, 0.5),
}
# What never is.
UNRECORDED: dict[str, Made] = {
    "argmax": lambda lib, o: lambda: o.x.argmax(1),
    "x > y": lambda lib, o: lambda: o.x > o.y,
    "x == y": lambda lib, o: lambda: o.x == o.y,
    "x += y": lambda lib, o: lambda: o.total.add_(o.y),
    "zeros": lambda lib, o: lambda: lib.zeros(SIDE, SIDE),
    "ones": lambda lib, o: lambda: lib.ones(SIDE, SIDE),
    "arange": lambda lib, o: lambda: lib.arange(SIDE),
    "rand": lambda lib, o: lambda: lib.rand(SIDE, SIDE),
    "randn": lambda lib, o: lambda: lib.randn(SIDE, SIDE),
    "randint": lambda lib, o: lambda: lib.randint(0, 10, (SIDE, SIDE)),
    "randperm": lambda lib, o: lambda: lib.randperm(SIDE),
    "item": lambda lib, o: lambda: o.one.item(),
    "float()": lambda lib, o: lambda: float(o.one),
}


def main() -> None:
    """Measure all, or what the names say, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few repetitions: to see that it runs, not for numbers")
    parser.add_argument("names", nargs="*", help="functions or steps; all where none is named")
    given = parser.parse_args()
    hold_to_one_thread()
    libraries = {"adjoint": adjoint, **torch_on_one_thread()}
    wanted = given.names or [*RECORDED, *UNRECORDED, *STEPS]
    unknown = [name for name in wanted if name not in {**RECORDED, **UNRECORDED, **STEPS}]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}")

    print(machine(), end="\n\n")
    gc.collect()
    gc.freeze()
    rows, ratios = [], []
    for name in wanted:
        if name in STEPS:
            continue
        makers = {**RECORDED, **UNRECORDED}
        for recorded in (False, True) if name in RECORDED else (False,):
            calls = {lib: makers[name](module, Operands(module, recorded)) for lib, module in libraries.items()}
            samples = side_by_side(calls, 3 if given.quick else 15)
            rows.append((f"{name}, recorded" if recorded else name, *_cells(samples)))
            ratios += _ratio(samples)
    if rows:
        print(table(("function", "adjoint", "torch", "torch / adjoint"), rows), end="\n\n")
    if ratios:
        print(f"median {median(ratios):.2f} (target ≥ {MEDIAN}), least {min(ratios):.2f} (target ≥ {LEAST})\n")
    rows = []
    for name in wanted:
        if name in STEPS:
            calls = {lib: STEPS[name](module) for lib, module in libraries.items()}
            samples = side_by_side(calls, 2 if given.quick else 9)
            rows.append((name, *_cells(samples), f"≥ {STEP}"))
    if rows:
        print(table(("training step", "adjoint", "torch", "torch / adjoint", "target"), rows))


def side_by_side(calls: dict[str, Call], rounds: int) -> dict[str, Samples]:
    """Seconds of a call of each, in bursts that take turns; the cyclic garbage of a burst is collected between them."""
    counts = {name: _count(call) for name, call in calls.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for k in range(rounds):
        for name in list(calls)[:: -1 if k % 2 else 1]:
            gc.collect()
            seconds[name].append(_seconds(calls[name], counts[name]))
    return {name: Samples(tuple(taken)) for name, taken in seconds.items()}


def _count(call: Call) -> int:
    """Calls that take a burst, once all is warm and what loads late is loaded."""
    start, count = time.thread_time(), 8
    while time.thread_time() - start < WARM:
        _seconds(call, count)
    while count * _seconds(call, count) < BURST / 2:
        count *= 2
    return count


def _seconds(call: Call, count: int) -> float:
    turns = range(count)
    start = time.thread_time()
    for _ in turns:
        call()
    return (time.thread_time() - start) / count


def cnn_step(library: Any) -> Call:
    """The network of PyTorch's MNIST example, batch 64, with Adadelta."""
    nn, F = library.nn, library.nn.functional
    library.manual_seed(0)

    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
            self.drop_quarter, self.drop_half = nn.Dropout(0.25), nn.Dropout(0.5)
            self.hidden, self.head = nn.Linear(9216, 128), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            x = F.relu(self.second(F.relu(self.first(x))))
            x = library.flatten(self.drop_quarter(F.max_pool2d(x, 2)), 1)
            return F.log_softmax(self.head(self.drop_half(F.relu(self.hidden(x)))), dim=1)

    model = Net()
    optimizer = library.optim.Adadelta(model.parameters(), lr=1.0)
    x, y = (library.tensor(array) for array in images((1, 28, 28), 10, 64)[0])

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.nll_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def gpt_step(library: Any) -> Call:
    """nanoGPT's on a CPU: four layers of width 128, texts of 64, batch 12; AdamW, gradients clipped."""
    library.manual_seed(0)
    model = build_gpt(library, NARROW_SIZE)
    optimizer = library.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    x, y = (library.tensor(array) for array in texts(NARROW_SIZE)[0])

    def step() -> Any:
        scores = model(x)
        loss = library.nn.functional.cross_entropy(scores.view(-1, scores.size(-1)), y.view(-1), ignore_index=-1)
        loss.backward()
        library.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


STEPS: dict[str, Callable[[Any], Call]] = {"MNIST CNN": cnn_step, "nanoGPT": gpt_step}


def _cells(samples: dict[str, Samples]) -> tuple[str, ...]:
    theirs = micro(samples["torch"].median) if "torch" in samples else "–"
    return micro(samples["adjoint"].median), theirs, *([f"{r:.2f}" for r in _ratio(samples)] or ["–"])


def _ratio(samples: dict[str, Samples]) -> list[float]:
    return [samples["torch"].median / samples["adjoint"].median] if "torch" in samples else []


if __name__ == "__main__":
    main()
