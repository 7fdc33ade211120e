"""PyTorch's choice among implementations of attention: there is one here, so that each choice computes the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any


class SDPBackend(IntEnum):
    """The names of PyTorch's implementations."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """A block that runs as without. Raises TypeError unless a `SDPBackend`, or a list of them, is given."""
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(chosen, (list, tuple, set)) or not all(isinstance(each, SDPBackend) for each in chosen):
        raise TypeError(f"sdpa_kernel expects an SDPBackend or a list of them, got {backends!r}")
    yield
