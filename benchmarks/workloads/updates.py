"""Optimizers as formulas: of a weight, its gradient, its moments and the number of the step; for PyTorch and JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def sgd(w: Any, g: Any, moments: Any, count: Any, *, lr: float, momentum: float = 0.0) -> Any:
    """w − lr·v, v = momentum·v + g."""
    velocity = momentum * moments[0] + g
    return w - lr * velocity, (velocity,)


def adam(w: Any, g: Any, moments: Any, count: Any, *, lr: float) -> Any:
    """w − lr·m̂ / (√v̂ + ε), as PyTorch computes it."""
    b1, b2, eps = 0.9, 0.999, 1e-8
    m, v = b1 * moments[0] + (1 - b1) * g, b2 * moments[1] + (1 - b2) * g * g
    return w - lr / (1 - b1**count) * m / (v**0.5 / (1 - b2**count) ** 0.5 + eps), (m, v)


def adamw(w: Any, g: Any, moments: Any, count: Any, *, lr: float, weight_decay: float = 0.01) -> Any:
    """Adam's step from w·(1 − lr·weight_decay)."""
    return adam(w * (1 - lr * weight_decay), g, moments, count, lr=lr)


# by the optimizer's name in `optim`: the formula, and how many moments it keeps
UPDATES: dict[str, tuple[Callable[..., Any], int]] = {"SGD": (sgd, 1), "Adam": (adam, 2), "AdamW": (adamw, 2)}
