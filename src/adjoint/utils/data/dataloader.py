"""Loaders, under the name by which programs written for PyTorch import them."""

from __future__ import annotations

from adjoint.data import DataLoader, default_collate, default_convert, get_worker_info
from adjoint.data.loader import Pass

_BaseDataLoaderIter = _SingleProcessDataLoaderIter = _MultiProcessingDataLoaderIter = Pass

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
