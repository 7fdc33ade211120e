"""Logistic regression on all rows at once: memory is what limits it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .workload import Batch, Network, Start, Workload, drawn, training


def workload(name: str, target: float, rows: int, columns: int) -> Workload:
    """A step of gradient descent."""
    network = Network(
        build=lambda library: library.nn.Linear(columns, 1),
        loss=lambda library, model, x, y: library.nn.functional.binary_cross_entropy_with_logits(
            model(x).squeeze(1), y
        ),
        jax_loss=jax_loss,
        start=lambda: Start(drawn({"weight": (1, columns), "bias": (1,)}), [data(rows, columns)]),
        flops=4.0 * rows * columns,  # the scores, and the gradient of the weight
        optimizer="SGD",
        options={"lr": 0.1},
    )
    return training(name, f"logistic regression, {rows:,} × {columns}", target, network)


def data(rows: int, columns: int) -> Batch:
    """Normal numbers, and the class that a noisy linear rule gives."""
    numbers = np.random.default_rng(1)
    x = numbers.normal(size=(rows, columns)).astype(np.float32)
    y = x @ numbers.normal(size=columns) + numbers.normal(size=rows) > 0
    return x, y.astype(np.float32)


def jax_loss(w: Any, buffers: Any, x: Any, y: Any) -> Any:
    """max(z, 0) − z·y + log(1 + e^−|z|), in JAX."""
    import jax.numpy as jnp

    z = x @ w["weight"][0] + w["bias"]
    return (jnp.maximum(z, 0) - z * y + jnp.log1p(jnp.exp(-abs(z)))).mean(), buffers


LOGISTIC = workload("logistic", 1.5, 100_000, 50)
TINY = workload("logistic", 1.0, 20, 3)
