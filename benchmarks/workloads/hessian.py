"""Second derivatives of Rosenbrock's function: a Hessian times a vector, and the whole Hessian."""

from __future__ import annotations

from typing import Any

import numpy as np

from .workload import FLOAT, Start, Step, Work, Workload


def product(name: str, target: float, n: int) -> Workload:
    """H·v, as the derivative of the gradient along v; 30 flops for each dimension, counted in the formulas."""

    def step(library: Any, start: Start) -> Step:
        func = library.func
        return lambda x, v: func.jvp(func.grad(rosenbrock), (x,), (v,))[1]

    def jax_step(start: Start) -> Step:
        import jax

        return jax.jit(lambda x, v: jax.jvp(jax.grad(rosenbrock), (x,), (v,))[1])

    return Workload(
        name,
        f"Hessian-vector product, {n} dimensions",
        target,
        lambda: Start({}, [points(n)]),
        step,
        jax_step,
        work=lambda: Work(30.0 * n, 3 * FLOAT * n),
        whole=step,
    )


def whole(name: str, target: float, n: int) -> Workload:
    """All of H, (n, n), which is tridiagonal: what must be done is to write it."""

    def step(library: Any, start: Start) -> Step:
        return library.func.hessian(rosenbrock)

    def jax_step(start: Start) -> Step:
        import jax

        return jax.jit(jax.hessian(rosenbrock))

    return Workload(
        name,
        f"full Hessian, {n} dimensions",
        target,
        lambda: Start({}, [points(n)[:1]]),
        step,
        jax_step,
        work=lambda: Work(30.0 * n, FLOAT * (n * n + n)),
        whole=step,
    )


def rosenbrock(x: Any) -> Any:
    """Σ 100·(x[i+1] − x[i]²)² + (1 − x[i])²."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def points(n: int) -> tuple[Any, ...]:
    """A point and a direction."""
    numbers = np.random.default_rng(1)
    return tuple(numbers.normal(size=n).astype(np.float32) for _ in range(2))


PRODUCT = product("hessian-vector", 1.5, 50)
WHOLE = whole("hessian", 1.5, 50)
TINY_PRODUCT, TINY_WHOLE = product("hessian-vector", 1.0, 4), whole("hessian", 1.0, 4)
