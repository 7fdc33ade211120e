"""Fetchers: functions from the indices of a batch to the collated samples of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from adjoint.data.collate import default_collate
from adjoint.data.dataset import IterableDataset, fetch_rows

Fetch = Callable[[Any], Any]


class DatasetKind:
    """Kinds of datasets: with an index for each sample, or with one sample after the other."""

    Map, Iterable = 0, 1


def dataset_kind(dataset: Any) -> int:
    """Return the kind of a dataset, by its class."""
    return DatasetKind.Iterable if isinstance(dataset, IterableDataset) else DatasetKind.Map


def make_fetcher(kind: int, dataset: Any, batched: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> Fetch:
    """Return a function from one index, or from a list of them, to a batch of the loader.

    The one of an iterable dataset begins a pass, counts the indices only, and raises StopIteration at the end.
    """
    if kind == DatasetKind.Iterable:
        return _make_iterable_fetcher(iter(dataset), batched, collate_fn, drop_last)
    return _make_map_fetcher(dataset, batched, collate_fn)


def _make_map_fetcher(dataset: Any, batched: bool, collate_fn: Callable[[Any], Any]) -> Fetch:
    fetch_many = getattr(dataset, "__getitems__", None)

    def fetch(at: Any) -> Any:
        if not batched:
            return collate_fn(dataset[at])
        if collate_fn is default_collate:
            batch = fetch_rows(dataset, at)
            if batch is not None:
                return batch
        return collate_fn(fetch_many(at) if fetch_many else [dataset[i] for i in at])

    return fetch


def _make_iterable_fetcher(
    samples: Iterator[Any], batched: bool, collate_fn: Callable[[Any], Any], drop_last: bool
) -> Fetch:
    ended = False

    def fetch(at: Any) -> Any:
        nonlocal ended
        if not batched:
            return collate_fn(next(samples))
        batch = [] if ended else list(islice(samples, len(at)))
        ended = len(batch) < len(at)
        if not batch or (drop_last and ended):
            raise StopIteration
        return collate_fn(batch)

    return fetch
