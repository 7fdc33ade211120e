"""The Black–Scholes price of a call option and its gradient in spot, strike and time, for many options at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .workload import FLOAT, Start, Step, Work, Workload

RATE, VOLATILITY = 0.02, 0.3
FLOPS = 75  # of one option: 25 for the price, twice as many for the gradient, a function counted as one


def workload(name: str, target: float, count: int) -> Workload:
    """Prices (N,) and three gradients (N,)."""
    return Workload(
        name=name,
        title=f"Black–Scholes value and gradient, {count:,} options",
        target=target,
        start=lambda: start(count),
        step=step,
        jax=jax_step,
        work=lambda: Work(FLOPS * count, 7 * FLOAT * count),  # three numbers in, four out
        whole=step,
    )


def start(count: int) -> Start:
    """Spot and strike from 75 to 125, time from a tenth of a year to 1.1."""
    numbers = np.random.default_rng(1)
    return Start({}, [tuple((numbers.random(count) * w + a).astype(np.float32) for w, a in RANGES)])


def price(library: Any, spot: Any, strike: Any, time: Any) -> Any:
    """S·Φ(d₁) − K·e^(−rT)·Φ(d₂), Black and Scholes (1973)."""
    spread = VOLATILITY * library.sqrt(time)
    d1 = (library.log(spot / strike) + (RATE + 0.5 * VOLATILITY**2) * time) / spread
    return spot * cumulated(library, d1) - strike * library.exp(-RATE * time) * cumulated(library, d1 - spread)


def cumulated(library: Any, x: Any) -> Any:
    """Φ(x) = (1 + erf(x/√2)) / 2."""
    return 0.5 * (1 + library.erf(x / math.sqrt(2)))


def step(library: Any, start: Start) -> Step:
    """The value, and the gradient of its sum, which is the gradient of each."""

    def value_and_gradient(*given: Any) -> Any:
        wanted = [x.detach().requires_grad_() for x in given]
        value = price(library, *wanted)
        return value.detach(), *library.autograd.grad(value.sum(), wanted)

    return value_and_gradient


def jax_step(start: Start) -> Step:
    """The same, in JAX; `vjp` gives both at once."""
    import types

    import jax
    import jax.numpy as jnp

    functions = types.SimpleNamespace(sqrt=jnp.sqrt, log=jnp.log, exp=jnp.exp, erf=jax.scipy.special.erf)

    def value_and_gradient(*given: Any) -> Any:
        value, pull = jax.vjp(lambda *x: price(functions, *x), *given)
        return value, *pull(jnp.ones_like(value))

    return jax.jit(value_and_gradient)


RANGES = ((50, 75), (50, 75), (1, 0.1))
BLACK_SCHOLES = workload("black-scholes", 1.5, 1_000_000)
TINY = workload("black-scholes", 1.0, 5)
