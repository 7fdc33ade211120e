"""Whole training steps side by side: ours compiled and eager, PyTorch's eager mode, and jax.jit.

    python3 dev.py bench training [--quick]

ADJOINT_ORACLE=1 before it has PyTorch installed; JAX is taken where it is found. `taskset -c 0` before it keeps all to
one core: JAX has no other sure way to be held to one thread. Every candidate starts from the same parameters and sees
the same batches; their losses over the first steps must agree before anything is timed. A ratio is the other's median
over that of ours compiled: above 1, ours is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from typing import Any

import numpy as np

import adjoint

from .measure import Samples, hold_to_one_thread, installed, interleaved, machine, micro, milli, table

CHECKED = 20  # steps whose losses must agree
ALLOWED = 1e-4  # relative difference of two losses
Step = Callable[[Any, Any], Any]
Parameters = list[Any]  # weight (out, in) and bias of one layer after another, as arrays


@dataclass(frozen=True)
class Task:
    """A multi-layer perceptron with ReLU, its batch and its optimizer."""

    sizes: tuple[int, ...]
    batch: int
    optimizer: str  # a name in `optim`
    options: dict[str, float]

    @property
    def title(self) -> str:
        """For the reader."""
        return f"{'-'.join(map(str, self.sizes))}, batch {self.batch}, {self.optimizer}"


TASKS = {
    "digits-sgd": Task((64, 128, 10), 32, "SGD", {"lr": 0.05, "momentum": 0.9}),
    "digits-adam": Task((64, 128, 10), 32, "Adam", {"lr": 1e-3}),
    "mnist-adam": Task((784, 256, 128, 10), 128, "Adam", {"lr": 1e-3}),
}
TARGETS = {("digits-sgd", "torch eager"): "≥ 5", ("digits-adam", "torch eager"): "≥ 5"}


@dataclass(frozen=True)
class Candidate:
    """A step that trains one model when called and returns the loss, and the batches as it takes them."""

    step: Step
    batches: list[tuple[Any, Any]]


def main() -> None:
    """Check, measure and print each task; or, for a process of its own, the first compiled call of one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few repetitions: to see that it runs, not for numbers")
    parser.add_argument("--first-call", metavar="TASK", choices=TASKS, help="print, as JSON, what its first call takes")
    options = parser.parse_args()
    hold_to_one_thread()
    if options.first_call:
        print(json.dumps(first_call(TASKS[options.first_call])))
        return

    print(machine(), end="\n\n")
    _note_missing()
    rounds, seconds = (3, 0.01) if options.quick else (41, 0.1)
    for name, task in TASKS.items():
        rows = []
        samples = time_steps(task, rounds, seconds)
        ours = samples["adjoint compiled"].median
        for who, taken in samples.items():
            spread = [micro(s) for s in (taken.median, *taken.spread)]
            rows.append((who, *spread, f"{taken.median / ours:.2f}", TARGETS.get((name, who), "")))
        print(f"{task.title}: seconds per step")
        print(table(("who", "median", "p10", "p90", "over ours compiled", "target"), rows), end="\n\n")

    print("First compiled call, in a new process each time")
    rows = [row for name in TASKS for row in startup(name, 2 if options.quick else 9)]
    print(table(("step", "median", "p10", "p90", "compile and import", "target"), rows))


def time_steps(task: Task, rounds: int, seconds: float) -> dict[str, Samples]:
    """Seconds per step of every candidate, from samples of about so many seconds each."""
    parameters, batches = initial(task), data(task)
    candidates = {name: make(task, parameters, batches) for name, make in CANDIDATES.items() if _present(name)}
    check_losses({name: _run(candidate, CHECKED) for name, candidate in candidates.items()})
    return interleaved({name: _sampler(candidate, seconds) for name, candidate in candidates.items()}, rounds)


def check_losses(found: dict[str, list[float]]) -> None:
    """End the program unless all candidates had the same losses."""
    (first, expected), *others = found.items()
    for name, losses in others:
        apart = float(np.max(np.abs(np.array(losses) / np.array(expected) - 1)))
        if not apart <= ALLOWED:
            raise SystemExit(f"the losses of {first} and {name} differ by {apart:.1e}: there is nothing to compare")


def _run(candidate: Candidate, count: int) -> list[float]:
    return [candidate.step(x, y).item() for x, y in islice(cycle(candidate.batches), count)]


def _sampler(candidate: Candidate, seconds: float) -> Callable[[], float]:
    """A sample: mean seconds per step, over passes through all batches, with the last loss read."""
    step, batches = candidate.step, candidate.batches

    def sample(passes: int) -> float:
        start = time.perf_counter()
        for _ in range(passes):
            for x, y in batches:
                loss = step(x, y)
        loss.item()
        return (time.perf_counter() - start) / passes / len(batches)

    passes = max(1, round(seconds / sample(1) / len(batches)))
    return lambda: sample(passes)


def adjoint_candidate(task: Task, parameters: Parameters, batches: list[Any], *, compiled: bool) -> Candidate:
    """Ours; the step is the same lines as PyTorch's."""
    step = training_step(adjoint, task, parameters)
    run = adjoint.compile(step) if compiled else step
    return Candidate(run, [(adjoint.tensor(x), adjoint.tensor(y)) for x, y in batches])


def torch_candidate(task: Task, parameters: Parameters, batches: list[Any], *, fused: bool) -> Candidate:
    """PyTorch's eager mode, with its optimizer's loop or its fused kernel."""
    import torch

    torch.set_num_threads(1)
    step = training_step(torch, task, parameters, **({"fused": True} if fused else {}))
    return Candidate(step, [(torch.tensor(x), torch.tensor(y)) for x, y in batches])


def training_step(library: Any, task: Task, parameters: Parameters, **options: Any) -> Step:
    """The usual step of a new model of `library` that begins at `parameters`."""
    nn, F = library.nn, library.nn.functional
    layers: list[Any] = []
    for inputs, outputs in pairwise(task.sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    with library.no_grad():
        for parameter, start in zip(model.parameters(), parameters, strict=True):
            parameter.copy_(library.tensor(start))
    optimizer = getattr(library.optim, task.optimizer)(model.parameters(), **task.options, **options)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def jax_candidate(task: Task, parameters: Parameters, batches: list[Any]) -> Candidate:
    """The whole step in jax.jit, its state donated; the optimizers are written out as PyTorch computes them."""
    import jax
    import jax.numpy as jnp

    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        *hidden, (last, bias) = zip(weights[::2], weights[1::2], strict=True)
        for weight, shift in hidden:
            x = jax.nn.relu(x @ weight.T + shift)
        scores = jax.nn.log_softmax(x @ last.T + bias)
        return -jnp.take_along_axis(scores, y[:, None], axis=1).mean()

    update: Any = {"SGD": _jax_momentum, "Adam": _jax_adam}[task.optimizer]

    def whole(state: Any, x: Any, y: Any) -> Any:
        weights, moments, count = state
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
        stepped = [update(*each, count + 1, **task.options) for each in zip(weights, gradients, moments, strict=True)]
        return ([w for w, _ in stepped], [m for _, m in stepped], count + 1), loss

    jitted = jax.jit(whole, donate_argnums=0)
    state = ([jnp.array(p) for p in parameters], [(jnp.zeros_like(p), jnp.zeros_like(p)) for p in parameters], 0)

    def step(x: Any, y: Any) -> Any:
        nonlocal state
        state, loss = jitted(state, x, y)
        return loss

    return Candidate(step, [(jnp.array(x), jnp.array(y.astype(np.int32))) for x, y in batches])


def _jax_momentum(w: Any, g: Any, moments: Any, count: Any, *, lr: float, momentum: float) -> Any:
    velocity = momentum * moments[0] + g
    return w - lr * velocity, (velocity, moments[1])


def _jax_adam(w: Any, g: Any, moments: Any, count: Any, *, lr: float) -> Any:
    import jax.numpy as jnp

    b1, b2, eps = 0.9, 0.999, 1e-8
    m, v = b1 * moments[0] + (1 - b1) * g, b2 * moments[1] + (1 - b2) * g * g
    return w - lr / (1 - b1**count) * m / (jnp.sqrt(v) / jnp.sqrt(1 - b2**count) + eps), (m, v)


CANDIDATES: dict[str, Callable[[Task, Parameters, list[Any]], Candidate]] = {
    "adjoint compiled": lambda *given: adjoint_candidate(*given, compiled=True),
    "adjoint eager": lambda *given: adjoint_candidate(*given, compiled=False),
    "torch eager": lambda *given: torch_candidate(*given, fused=False),
    "torch eager, fused optimizer": lambda *given: torch_candidate(*given, fused=True),
    "jax.jit, state donated": jax_candidate,
}
PEERS = {"torch eager": "torch", "torch eager, fused optimizer": "torch", "jax.jit, state donated": "jax"}


def _present(candidate: str) -> bool:
    return candidate not in PEERS or installed(PEERS[candidate]) is not None


def _note_missing() -> None:
    for package in sorted({package for package in PEERS.values() if installed(package) is None}):
        print(f"{package} is not installed: skipped\n")


def initial(task: Task) -> Parameters:
    """Weights uniform within ±1/√inputs, as `nn.Linear` draws them."""
    numbers = np.random.default_rng(0)
    found = []
    for inputs, outputs in pairwise(task.sizes):
        bound = inputs**-0.5
        found += [numbers.uniform(-bound, bound, (outputs, inputs)), numbers.uniform(-bound, bound, outputs)]
    return [p.astype(np.float32) for p in found]


def data(task: Task, count: int = 16) -> list[tuple[Any, Any]]:
    """Batches of pixels from 0 to 1 with labels that a linear rule gives: as good as real ones, for the time."""
    numbers = np.random.default_rng(1)
    x = numbers.random((count, task.batch, task.sizes[0])).astype(np.float32)
    y = (x @ numbers.normal(size=(task.sizes[0], task.sizes[-1]))).argmax(-1)
    return list(zip(x, y, strict=True))


def startup(name: str, repeats: int) -> list[tuple[str, ...]]:
    """The first compiled call with an empty kernel cache, and again with what that left on the disk."""
    cold, warm = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(_in_new_process(name, folder))
            warm.append(_in_new_process(name, folder))
    rows = []
    for how, target, found in (("cold", "≤ 500 ms", cold), ("from disk", "≤ 100 ms", warm)):
        call, making = (Samples(tuple(f[key] for f in found)) for key in ("call", "compile"))
        target = target if name.startswith("digits") else ""
        numbers = [milli(s) for s in (call.median, *call.spread, making.median)]
        rows.append((f"{name}, {how}", *numbers, target))
    return rows


def _in_new_process(name: str, cache: str) -> dict[str, float]:
    variables = {**os.environ, "ADJOINT_CACHE_DIR": cache, "ADJOINT_NO_CACHE": "0"}
    command = [sys.executable, "-m", "benchmarks.training", "--first-call", name]
    found: dict[str, float] = json.loads(subprocess.check_output(command, env=variables, text=True))
    return found


def first_call(task: Task) -> dict[str, float]:
    """Seconds that `compile` takes, which imports the compiler, and then the first call with its loss read."""
    step = training_step(adjoint, task, initial(task))
    x, y = (adjoint.tensor(array) for array in data(task, 1)[0])
    start = time.perf_counter()
    compiled = adjoint.compile(step)
    between = time.perf_counter()
    compiled(x, y).item()
    return {"compile": between - start, "call": time.perf_counter() - between}


if __name__ == "__main__":
    main()
