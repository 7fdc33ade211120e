"""Data loader: a dataset in batches, in order or shuffled as PyTorch shuffles it from the same seed."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sized
from itertools import repeat
from multiprocessing.context import BaseContext
from typing import Any, Generic, Self, TypeVar, cast

from adjoint.core.graph.source_location import warn_user
from adjoint.core.random.generator import Generator
from adjoint.core.runtime.notebook import show_in_notebook
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.runtime.threads import IN_BROWSER
from adjoint.data.collate import default_collate, default_convert
from adjoint.data.dataset import Dataset, IterableDataset
from adjoint.data.fetch import dataset_kind, make_fetcher
from adjoint.data.sampler import BatchSampler, RandomSampler, SequentialSampler, draw_seed
from adjoint.data.worker import Job
from adjoint.data.worker_pool import WorkerPool

Sample_co = TypeVar("Sample_co", covariant=True)

_DUPLICATE_SAMPLES_HINT = (
    "For multiprocessing data-loading, this could be caused by a dataset whose copies in the workers do not share the "
    "samples out: see get_worker_info()."
)
FROZEN_AFTER_INIT = {"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"}


class DataLoader(Generic[Sample_co]):
    """Iterable over a dataset in batches, in order or shuffled, with optional worker processes.

    Args:
        dataset: Dataset or IterableDataset.
        batch_size: number of samples per batch; None hands out single samples. Default: 1.
        shuffle: True for a new random order in each pass. Default: None, False.
        sampler: iterable of indices, in place of `shuffle`. Default: None.
        batch_sampler: iterable of lists of indices, in place of the batch size and the order. Default: None.
        num_workers: number of processes that fetch batches ahead. Default: 0, fetch in this process, as in a browser,
            after a warning.
        collate_fn: function from a list of samples to a batch. Default: `default_collate`.
        pin_memory, pin_memory_device: ignored.
        drop_last: True to leave out an incomplete last batch. Default: False.
        timeout: seconds to wait for a batch of a worker. Default: 0, without limit.
        worker_init_fn: function of the worker's number, called in each worker. Default: None.
        multiprocessing_context: context, or name of a start method, of the workers. Default: None.
        generator: source of the random order. Default: the global one.
        prefetch_factor: number of batches that each worker fetches ahead. Default: 2 with workers.
        persistent_workers: True to keep the workers for the next pass. Default: False.
        in_order: False to hand out batches as they arrive. Default: True.

    Raises: ValueError for options that exclude each other.

    Example:
        >>> dataset = ad.data.TensorDataset(ad.arange(5))
        >>> for (x,) in ad.data.DataLoader(dataset, batch_size=2):
        ...     print(x.tolist())
        [0, 1]
        [2, 3]
        [4]
    """

    _ready = False

    def __init__(
        self, dataset: Dataset[Sample_co], batch_size: int | None = 1, shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None, batch_sampler: Iterable[Any] | None = None, num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None, pin_memory: bool = False, drop_last: bool = False,
        timeout: float = 0, worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None,
        generator: Generator | None = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
        pin_memory_device: str = "", in_order: bool = True,
    ) -> None:  # fmt: skip
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if num_workers and IN_BROWSER:
            warn_user(
                f"a browser starts no processes: in place of {pluralize(num_workers, 'worker')} this loader fetches "
                "its batches itself"
            )
            num_workers, prefetch_factor, persistent_workers, multiprocessing_context = 0, None, False, None
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
            if isinstance(dataset, IterableDataset):
                sampler = repeat(None)
            else:
                samples = cast("Sized", dataset)
                sampler = RandomSampler(samples, generator=generator) if shuffle else SequentialSampler(samples)
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
        self.multiprocessing_context = _resolve_context(multiprocessing_context, num_workers)
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.in_order = in_order
        self._iterator: LoaderIterator | None = None  # that whose workers stay
        self._IterableDataset_len_called: int | None = None  # how many samples an iterable dataset said that it has
        self._ready = True
        _warn_too_many_workers(num_workers)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and name in FROZEN_AFTER_INIT:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    _repr_html_ = show_in_notebook

    def __iter__(self) -> Iterator[Any]:
        if not (self.persistent_workers and self.num_workers):
            return LoaderIterator(self)
        if self._iterator is None or not self._iterator.restart(self._IterableDataset_len_called):
            self._iterator = LoaderIterator(self)
        return self._iterator

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return len(cast("Sized", self._index_sampler))
        count = self._IterableDataset_len_called = len(cast("Sized", self.dataset))
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    @property
    def _auto_collation(self) -> bool:
        """True if the loader makes batches of samples; programs around PyTorch's loader read it."""
        return self.batch_sampler is not None

    @property
    def _dataset_kind(self) -> int:
        return dataset_kind(self.dataset)

    @property
    def _index_sampler(self) -> Iterable[Any]:
        return self.sampler if self.batch_sampler is None else self.batch_sampler


class LoaderIterator:
    """Iterator of one pass through a loader's dataset; with persistent workers, of one pass after another.

    It reads the attributes of the loader that PyTorch's iterator reads: another library's class may be the loader.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._sampler = loader._index_sampler
        self._dataset = loader.dataset
        self._persistent_workers = loader.persistent_workers
        self._indices = iter(self._sampler)
        self._reported_length = loader._IterableDataset_len_called
        self._num_yielded = 0
        self._worker_pool: WorkerPool | None = None
        seed = draw_seed(loader.generator)  # without workers too, so that the streams stay in step with PyTorch's
        kind, batched = loader._dataset_kind, loader._auto_collation
        if not loader.num_workers:
            self._fetch = make_fetcher(kind, loader.dataset, batched, loader.collate_fn, loader.drop_last)
            return
        init_fn, workers = loader.worker_init_fn, loader.num_workers
        job = Job(kind, loader.dataset, batched, loader.collate_fn, loader.drop_last, init_fn, workers, seed)
        context = loader.multiprocessing_context or multiprocessing.get_context()
        self._worker_pool = WorkerPool(job, context, loader.prefetch_factor or 0, loader.timeout, loader.in_order)
        self._worker_pool.begin(iter(self._sampler))

    def restart(self, reported_length: int | None) -> bool:
        """Begin another pass with the same workers; False if they are gone."""
        if self._worker_pool is None or not self._worker_pool.shutdown.alive:
            return False
        self._reported_length, self._num_yielded = reported_length, 0
        self._worker_pool.begin(iter(self._sampler))
        return True

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        pool = self._worker_pool
        batch = self._fetch(next(self._indices)) if pool is None else self._next_from_workers(pool)
        self._num_yielded += 1
        if self._reported_length is not None and self._num_yielded > self._reported_length:
            hint = _DUPLICATE_SAMPLES_HINT if pool else ""
            warnings.warn(
                f"Length of IterableDataset {self._dataset} was reported to be {self._reported_length} (when accessing "
                f"len(dataloader)), but {pluralize(self._num_yielded, 'sample')} have been fetched. {hint}",
                stacklevel=2,
            )
        return batch

    def __len__(self) -> int:
        return len(cast("Sized", self._sampler))

    @property
    def _workers(self) -> list[Any]:
        """Worker processes; programs that watch PyTorch's read them."""
        return [] if self._worker_pool is None else [worker.process for worker in self._worker_pool.workers]

    def _next_from_workers(self, worker_pool: WorkerPool) -> Any:
        try:
            return worker_pool.next()
        except StopIteration:
            if not self._persistent_workers:
                worker_pool.shutdown()
            raise


def _check_iterable(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch_factor is not None and num_workers == 0:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing: let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _warn_too_many_workers(num_workers: int) -> None:
    """Warn of more worker processes than there are CPUs for this one."""
    bound = hasattr(os, "sched_getaffinity")
    count = len(os.sched_getaffinity(0)) if bound else os.cpu_count()
    if num_workers and (count is None or num_workers > count):
        suggested = (
            "DataLoader is not able to compute a suggested max number of worker in current system."
            if count is None
            else f"Our suggested max number of worker in current system is {count}"
            f"{'' if bound else ' (`cpuset` is not taken into account)'}, which is smaller than what this DataLoader "
            "is going to create."
        )
        warnings.warn(
            f"This DataLoader will create {pluralize(num_workers, 'worker process', 'worker processes')} in total. "
            f"{suggested} Please be aware that "
            "excessive worker creation might get DataLoader running slow or even freeze, lower the worker number to "
            "avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )


def _resolve_context(given: Any, num_workers: int) -> Any:
    """Return the context that starts worker processes, by its name or as given."""
    if given is None:
        return None
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
            f"but got num_workers={num_workers}"
        )
    if isinstance(given, str):
        methods = multiprocessing.get_all_start_methods()
        if given not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods}, but got "
                f"multiprocessing_context={given!r}"
            )
        return multiprocessing.get_context(given)
    if not isinstance(given, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={given}"
        )
    return given
