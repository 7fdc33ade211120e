"""A load in plain PyTorch style, from which the training step of either library is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from benchmarks.workloads.workload import BATCHES, Batch, NotYet, Start, Step, Work, Workload

LOADS: dict[str, Workload] = {}
TINY_LOADS: dict[str, Workload] = {}  # the same at sizes that take no time: for tests


@dataclass(frozen=True)
class Recipe:
    """`build(library)` gives a module and the loss of a batch; `optimizer` is a name in `optim`.

    `step(library)`, where it is given, makes the whole step instead.
    """

    batches: Callable[[], list[Batch]]
    build: Callable[[Any], tuple[Any, Callable[..., Any]]] | None = None
    optimizer: str = "Adam"
    options: Mapping[str, float] = field(default_factory=lambda: {"lr": 1e-3})
    max_norm: float | None = None  # gradients are clipped to it
    step: Callable[[Any], Step] | None = None


def load(name: str, title: str, **tiny: int) -> Callable[[Callable[..., Recipe]], Callable[..., Recipe]]:
    """Enter the decorated recipe in the tables, at its own sizes and at the tiny ones."""

    def enter(recipe: Callable[..., Recipe]) -> Callable[..., Recipe]:
        LOADS[name] = _workload(name, title, recipe())
        TINY_LOADS[name] = _workload(name, title, recipe(**tiny))
        return recipe

    return enter


def draw_batches(draw: Callable[[np.random.Generator], Batch]) -> Callable[[], list[Batch]]:
    """A function that draws a few batches, always the same; floats are float32."""

    def narrow(array: Any) -> Any:
        return array.astype(np.float32) if array.dtype == np.float64 else array

    def draw_all() -> list[Batch]:
        numbers = np.random.default_rng(2)
        return [tuple(narrow(np.asarray(array)) for array in draw(numbers)) for _ in range(BATCHES)]

    return draw_all


def _workload(name: str, title: str, recipe: Recipe) -> Workload:
    """The recipe as one of the harness's workloads. It has no bound, and none is written for JAX."""
    return Workload(
        name=name,
        title=title,
        target=1.5,
        start=lambda: Start({}, recipe.batches()),
        step=lambda library, start: recipe.step(library) if recipe.step else _training_step(library, recipe),
        jax=_refuse_jax,
        work=lambda: Work(0.0, 0.0),
    )


def _training_step(library: Any, recipe: Recipe) -> Step:
    """The usual step. The same seed gives both libraries the same weights."""
    assert recipe.build is not None
    library.manual_seed(0)
    model, loss_of = recipe.build(library)
    optimizer = getattr(library.optim, recipe.optimizer)(model.parameters(), **recipe.options)

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        if recipe.max_norm is not None:
            library.nn.utils.clip_grad_norm_(model.parameters(), recipe.max_norm)
        optimizer.step()
        return loss.detach()

    return step


def _refuse_jax(start: Start) -> Step:
    raise NotYet("no step is written for JAX")
