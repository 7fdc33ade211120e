"""Answers without gradients, for one input at a time: weights are read, and hardly anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from . import gpt, mlp
from .workload import FLOAT, Start, Step, Weights, Work, Workload, images, loaded


def perceptron(name: str, target: float, sizes: tuple[int, ...]) -> Workload:
    """An MLP's scores."""
    return _workload(
        name,
        f"inference, MLP {'-'.join(map(str, sizes))}, batch 1",
        target,
        lambda: Start(mlp.weights(sizes), [batch[:1] for batch in images(sizes[:1], sizes[-1], 1)]),
        lambda library: mlp.build(library, sizes),
        mlp.jax_forward,
        sum(2.0 * a * b for a, b in pairwise(sizes)),
    )


def transformer(name: str, target: float, size: gpt.GPT) -> Workload:
    """A GPT's scores at every place of one text."""
    size = replace(size, batch=1)
    return _workload(
        name,
        f"inference, GPT {size.layers} layers, width {size.width}, block {size.block}, batch 1",
        target,
        lambda: Start(gpt.weights(size), [batch[:1] for batch in gpt.texts(size)]),
        lambda library: gpt.build(library, size),
        lambda w, text: gpt.jax_forward(size, w, text),
        gpt.forward_flops(size),
    )


def _workload(
    name: str,
    title: str,
    target: float,
    start: Callable[[], Start],
    build: Callable[[Any], Any],
    forward: Callable[[Weights, Any], Any],
    flops: float,
) -> Workload:
    def step(library: Any, start: Start) -> Step:
        model = loaded(library, build(library), start.weights).eval()

        def answer(x: Any) -> Any:
            with library.no_grad():
                return model(x)

        return answer

    def jax_step(start: Start) -> Step:
        import jax
        import jax.numpy as jnp

        weights = {k: jnp.array(w) for k, w in start.weights.items()}
        jitted = jax.jit(forward)
        return lambda x: jitted(weights, x)

    def work() -> Work:
        return Work(flops, FLOAT * sum(w.size for w in start().weights.values()))

    return Workload(name, title, target, start, step, jax_step, work, whole=step)


MLP = perceptron("inference-mlp", 1.5, (784, 256, 128, 10))
GPT = transformer("inference-gpt", 1.4, gpt.NARROW_SIZE)
TINY_MLP = perceptron("inference-mlp", 1.0, (8, 6, 3))
TINY_GPT = transformer("inference-gpt", 1.0, gpt.GPT(layers=1, heads=2, width=8, block=5, symbols=7, batch=1))
