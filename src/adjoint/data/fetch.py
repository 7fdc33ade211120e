"""Fetchers: functions from the indices of a batch to the collated samples of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from adjoint.core.graph.source_location import definition_site, library_files
from adjoint.core.runtime.explanation_slot import explanation_slot
from adjoint.core.typing import Operand
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

    def read(i: Operand) -> Operand:
        try:
            return dataset[i]
        except Exception as error:
            error.add_note(f"in sample {i!r} of {_describe(dataset)}")
            raise

    def collate(samples: object) -> object:
        try:
            return collate_fn(samples)
        except Exception as error:
            error.add_note(f"in putting together samples of {_describe(dataset)}")
            explanation_slot.call(error)
            raise

    def fetch(at: Any) -> Any:
        if not batched:
            return collate(read(at))
        if collate_fn is default_collate:
            batch = fetch_rows(dataset, at)
            if batch is not None:
                return batch
        return collate(fetch_many(at) if fetch_many else [read(i) for i in at])

    return fetch


def _describe(dataset: Operand) -> str:
    """Return the class of a dataset, the line of its `__getitem__`, and the number of samples that it claims."""
    told = f"the dataset {type(dataset).__name__}"
    code = getattr(getattr(type(dataset), "__getitem__", None), "__code__", None)
    if code is not None and not library_files[code.co_filename]:
        told += f" ({definition_site(code).describe_briefly()})"
    with suppress(Exception):  # the user's code; the error that is told is another
        told += f", {len(dataset)} by its __len__"
    return told


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
