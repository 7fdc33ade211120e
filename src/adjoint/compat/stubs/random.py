"""`adjoint.random`: functions of the default generator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]


@contextmanager
def fork_rng(devices: object = None, enabled: bool = True, device_type: str = "cpu") -> Iterator[None]:
    """Context that restores the state of the default generator at its end."""
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)


def thread_safe_generator() -> Generator | None:
    """Return None: the generator of a data loader's thread, and loaders here have no threads."""
    return None
