"""`adjoint.random`: the default generator's functions under the name of their module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from adjoint.functions.creation.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)

__all__ = [
    "Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed",
    "set_rng_state", "thread_safe_generator",
]  # fmt: skip


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cpu") -> Iterator[None]:
    """A block after which the default generator is where it was before."""
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)


def thread_safe_generator() -> Generator | None:
    """The generator of this thread where it is a worker of a data loader: None, as loaders here have no threads."""
    return None
