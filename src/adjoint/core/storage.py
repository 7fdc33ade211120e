"""Memory that several tensors see, and how often it was written in place."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.site import Site
from adjoint.core.writes import writes

if TYPE_CHECKING:
    from adjoint.core.tensor import Tensor


class Storage:
    """Shared by a tensor and all its views and detached twins. A tensor that was never aliased nor written has none."""

    __slots__ = ("aliases", "prune_at", "version")

    def __init__(self) -> None:
        self.version = 0
        self.aliases: list[weakref.ref[Tensor]] = []
        self.prune_at = 8

    def living(self) -> list[Tensor]:
        """The tensors that still see this memory."""
        self.aliases = [r for r in self.aliases if r() is not None]
        return [t for r in self.aliases if (t := r()) is not None]


def storage_of(tensor: Tensor) -> Storage:
    """The tensor's storage, made on first use."""
    storage = tensor.storage
    if storage is None:
        storage = tensor.storage = Storage()
        storage.aliases.append(weakref.ref(tensor))
    return storage


def share(source: Tensor, alias: Tensor) -> None:
    """Record that `alias` sees the memory of `source`."""
    storage = alias.storage = storage_of(source)
    storage.aliases.append(weakref.ref(alias))
    if len(storage.aliases) > storage.prune_at:  # a parameter gets a new view each step, and drops it
        storage.prune_at = 2 * len(storage.living()) + 8


def mark_written(tensor: Tensor, site: Site) -> None:
    """Count an in-place write, and note it for the nodes that keep this memory."""
    storage_of(tensor).version += 1
    if type(tensor.array) is np.ndarray:
        writes.record(tensor.array, site)
