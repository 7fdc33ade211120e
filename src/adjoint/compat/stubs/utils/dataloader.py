"""`torch.utils.data.dataloader`, with its `_utils.pin_memory`: loaders, and types for annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.data import DataLoader, default_collate, default_convert, get_worker_info
from adjoint.data.fetch import DatasetKind as _DatasetKind  # noqa: F401
from adjoint.data.loader import LoaderIterator

_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]
_BaseDataLoaderIter = _SingleProcessDataLoaderIter = _MultiProcessingDataLoaderIter = LoaderIterator

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]


def pin_memory(data: Any, device: object = None) -> Any:
    """Return a batch as it is: there is no other device for which memory could be pinned."""
    return data
