"""A dataset as batches, in order or shuffled as PyTorch shuffles it from the same seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, repeat
from typing import Any

from adjoint.core.generator import Generator
from adjoint.data.collate import default_collate, default_convert
from adjoint.data.dataset import Dataset, IterableDataset, rows
from adjoint.data.sampler import BatchSampler, RandomSampler, SequentialSampler, draw_seed

FIXED = {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}


class DataLoader:
    """Goes through `dataset` in batches: `for batch in DataLoader(dataset, batch_size=32, shuffle=True)`.

    `sampler` gives the order of the indices, `batch_sampler` whole batches of them; `collate_fn` makes a batch of
    samples; `batch_size=None` hands out single samples. Data are loaded in this process: RuntimeError for
    `num_workers`. ValueError for options that exclude each other. `pin_memory` and `in_order` have no meaning here.
    """

    _ready = False

    def __init__(
        self, dataset: Dataset[Any], batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None, batch_sampler: Iterable[Any] | None = None, num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None, pin_memory: bool = False, drop_last: bool = False,
        timeout: float = 0, worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None,
        generator: Generator | None = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
        pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        if isinstance(dataset, IterableDataset):
            _check_iterable(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = _sampler(dataset, bool(shuffle), generator)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset = dataset
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.drop_last = drop_last
        self.generator = generator
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self.num_workers = num_workers
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.in_order = in_order
        self._ready = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and name in FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        indices = iter(self.sampler if self.batch_sampler is None else self.batch_sampler)
        draw_seed(self.generator)  # PyTorch draws a seed for its workers: so the streams stay in step
        if isinstance(self.dataset, IterableDataset):
            return self._from_stream(iter(self.dataset), indices)
        return self._from_indices(indices)

    def _from_indices(self, indices: Iterator[Any]) -> Iterator[Any]:
        dataset: Any = self.dataset
        fetch_many = getattr(dataset, "__getitems__", None)
        for at in indices:
            if self.batch_sampler is None:
                yield self.collate_fn(dataset[at])
                continue
            if self.collate_fn is default_collate:
                batch = rows(dataset, at)
                if batch is not None:
                    yield batch
                    continue
            yield self.collate_fn(fetch_many(at) if fetch_many else [dataset[i] for i in at])

    def _from_stream(self, samples: Iterator[Any], indices: Iterator[Any]) -> Iterator[Any]:
        """The indices are None, and only count."""
        if self.batch_sampler is None:
            yield from map(self.collate_fn, samples)
            return
        for at in indices:
            batch = list(islice(samples, len(at)))
            if batch and not (self.drop_last and len(batch) < len(at)):
                yield self.collate_fn(batch)
            if len(batch) < len(at):
                return

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]
        count = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def _sampler(dataset: Any, shuffle: bool, generator: Generator | None) -> Iterable[Any]:
    if isinstance(dataset, IterableDataset):
        return repeat(None)
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool, context: Any
) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if num_workers > 0:
        raise RuntimeError(
            f"DataLoader: num_workers={num_workers} is not implemented yet: worker processes come in a later version. "
            "Use num_workers=0, which loads the data in this process."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch_factor is not None:
        raise ValueError("prefetch_factor option could only be specified with num_workers > 0")
    if persistent_workers:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if context is not None:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
            f"but got num_workers={num_workers}"
        )
