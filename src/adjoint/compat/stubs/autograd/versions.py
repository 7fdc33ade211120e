"""Versions put back, and how views keep up with writes: what programs for PyTorch's internals ask of autograd."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Self

from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.storage import storage_of
from adjoint.core.tensor.tensor import Tensor


@contextmanager
def _unsafe_preserve_version_counter(tensors: Tensor | Iterable[Tensor]) -> Iterator[None]:
    """A block whose writes into these tensors do not count: backward takes what it finds for what was saved."""
    given = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    before = [(storage_of(t), storage_of(t).version, mutation_log.of(t.array)) for t in given]
    stamps = [(write.order, write.site) for _, _, write in before]
    try:
        yield
    finally:
        for (storage, version, write), (order, site) in zip(before, stamps, strict=True):
            storage.version, write.order, write.site = version, order, site


class _force_original_view_tracking:
    """Takes PyTorch's switch between two ways to derive views anew. Here there is one: their steps are replayed."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def is_view_replay_enabled() -> bool:
    """True: a view whose base was written is derived by the steps that made it."""
    return True
