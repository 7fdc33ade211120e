"""A call that hardly computes: 20 tensors which the step captures, or which JAX is given, are what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .workload import Start, Step, Work, Workload

COUNT, SIZE = 20, 4


def workload(name: str, target: float) -> Workload:
    """x + w₁ + … + w₂₀, four numbers each."""

    def start() -> Start:
        numbers = np.random.default_rng(0)
        weights = {f"w{i}": numbers.normal(size=SIZE).astype(np.float32) for i in range(COUNT)}
        return Start(weights, [(np.ones(SIZE, np.float32),)])

    return Workload(name, f"call with {COUNT} captured tensors", target, start, step, jax_step, lambda: Work(0.0, 0.0))


def step(library: Any, start: Start) -> Step:
    """Captured in a list."""
    kept = [library.tensor(w) for w in start.weights.values()]

    def call(x: Any) -> Any:
        for w in kept:
            x = x + w
        return x

    return call


def jax_step(start: Start) -> Step:
    """Given as a list: what JAX captures it takes for constants."""
    import jax
    import jax.numpy as jnp

    kept = [jnp.array(w) for w in start.weights.values()]

    def call(kept: Any, x: Any) -> Any:
        for w in kept:
            x = x + w
        return x

    jitted = jax.jit(call)
    return lambda x: jitted(kept, x)


CAPTURED = workload("captured", 7.8)
