"""Steps of random sizes, run: compiled and eagerly, with other sizes in each call."""

from __future__ import annotations

import linecache
from random import Random
from typing import Any

import numpy as np
from tests.support.fuzz.sizes.generate import COLUMNS, HELPERS, ROWS

import adjoint as ad

CALLS = 12


def find_difference(number: int, text: str) -> str | None:
    """Return how a compiled step differs from the eager one in some call; None if it never does."""
    ad.manual_seed(number)
    space: dict[str, Any] = {}
    for name in "xyw":
        space[name] = ad.randn(ROWS, COLUMNS, requires_grad=name != "y")
    file = f"<step {number}>"
    source = f"{HELPERS}\n\n{text}"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    exec(compile(source, file, "exec"), space)
    step, draw = space["step"], Random(number)
    compiled = ad.compile(step, dynamic=True if number % 2 else None)
    for call in range(CALLS):
        n, m, rows = draw.randrange(2, 40), draw.randrange(2, 40), draw.randrange(2, 30)
        if call > CALLS // 2:
            n, m = draw.randrange(4), draw.randrange(-3, 100)
        v = ad.randn(rows, COLUMNS)
        eager, ours = _run(step, n, m, v), _run(compiled, n, m, v)
        found = _compare(eager, ours)
        if found is not None:
            return f"call {call}, n = {n}, m = {m}, len(v) = {rows}: {found}"
    return None


def _run(step: Any, *given: Any) -> list[np.ndarray] | Exception:
    try:
        return [result.detach().numpy().copy() for result in step(*given)]
    except Exception as error:  # noqa: BLE001  which the other run is to raise too
        return error


def _compare(eager: list[np.ndarray] | Exception, ours: list[np.ndarray] | Exception) -> str | None:
    if isinstance(eager, Exception) or isinstance(ours, Exception):
        return None if type(eager) is type(ours) else f"eager {eager!r:.200}, compiled {ours!r:.300}"
    for name, a, b in zip(("loss", "x.grad", "w.grad"), eager, ours, strict=True):
        if a.shape != b.shape or not np.allclose(a, b, rtol=5e-3, atol=5e-4, equal_nan=True):
            return f"{name} differs by up to {np.abs(a - b).max() if a.shape == b.shape else (a.shape, b.shape)}"
    return None
