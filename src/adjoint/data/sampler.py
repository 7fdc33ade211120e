"""Samplers: orders of a dataset's indices, one by one or in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import cycle, islice
from typing import Any, Generic, TypeVar, cast

import numpy as np

from adjoint.core.dtype.dtype import float64
from adjoint.core.random.generator import Generator, default_generator
from adjoint.core.runtime.mode import refuse_while_tracing
from adjoint.core.runtime.slot import Slot
from adjoint.functions.creation.creation import as_tensor
from adjoint.functions.creation.sampling import multinomial

Index_co = TypeVar("Index_co", covariant=True)
INDICES_PER_DRAW = 32  # with replacement PyTorch draws so many indices at a time, which fixes the use of the stream


class Sampler(Generic[Index_co]):
    """Base class of orders of indices.

    A subclass defines `__iter__`, and `__len__` if a loader is to know its length.

    Raises: NotImplementedError where a subclass has no `__iter__`.

    Example:
        >>> class Reverse(ad.data.Sampler):
        ...     def __iter__(self):
        ...         return iter([2, 1, 0])
        >>> [x.item() for x in ad.data.DataLoader([10, 11, 12], sampler=Reverse())]
        [12, 11, 10]
    """

    def __iter__(self) -> Iterator[Index_co]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")


class SequentialSampler(Sampler[int]):
    """Sampler of all indices in order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Sampler of all indices in random order, or of independent draws.

    Without a generator each pass takes a new seed from the global one.

    Args:
        data_source: dataset or another sized object.
        replacement: True to draw each index independently. Default: False.
        num_samples: number of indices per pass. Default: the size of `data_source`.
        generator: source of random numbers. Default: None.

    Raises: TypeError or ValueError for options of the wrong type, and for no samples.

    Example:
        >>> sorted(ad.data.RandomSampler(range(4)))
        [0, 1, 2, 3]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if type(replacement) is not bool:
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if type(self.num_samples) is not int or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """Number of indices per pass, by default the number of samples."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, wanted = len(self.data_source), self.num_samples
        source = self.generator or Generator().manual_seed(draw_seed())
        if self.replacement:
            for _ in range(wanted // INDICES_PER_DRAW):
                yield from source.randint(0, n, (INDICES_PER_DRAW,), np.int64).tolist()
            yield from source.randint(0, n, (wanted % INDICES_PER_DRAW,), np.int64).tolist()
        else:
            for _ in range(wanted // n):
                yield from source.randperm(n).tolist()
            yield from source.randperm(n).tolist()[: wanted % n]  # drawn even when none of it is wanted

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Sampler of given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in (self.generator or default_generator).randperm(len(self.indices)).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Sampler of indices with given probabilities.

    Args:
        weights: sequence of numbers, proportional to the probabilities.
        num_samples: number of indices per pass.
        replacement: False to draw each index at most once. Default: True.
        generator: source of random numbers. Default: the global one.

    Raises: ValueError for options of the wrong type, for no samples, and for weights that are not one-dimensional.

    Example:
        >>> list(ad.data.WeightedRandomSampler([0.0, 1.0], num_samples=3))
        [1, 1, 1]
    """

    def __init__(
        self, weights: Any, num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        if type(num_samples) is not int or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if type(replacement) is not bool:
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=float64)
        if self.weights.ndim != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.array.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        yield from multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[Any]]):
    """Sampler of lists of indices, made from another sampler.

    Args:
        sampler: iterable of indices.
        batch_size: number of indices per list.
        drop_last: True to leave out an incomplete last list.

    Raises: ValueError for a batch size below 1, and for options of the wrong type.

    Example:
        >>> list(ad.data.BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if type(batch_size) is not int or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if type(drop_last) is not bool:
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        count = len(cast("Sized", self.sampler))
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


# the rank of this process and the number of ranks: `adjoint.distributed` knows them
rank_slot: Slot[Callable[[], tuple[int, int]]] = Slot("rank", lambda: (0, 1))


class DistributedSampler(Sampler[int]):
    """Sampler of every `num_replicas`-th index from `rank` on; all replicas shuffle alike, by `seed` + epoch.

    All get equally many: the first indices come again at the end, or `drop_last` leaves out the last. Without
    `num_replicas` and `rank` they are those of the process group; without a group this process is the only one.

    With `batch_size`, that of each replica, the replicas' batches are neighbours: together they are the batch of one
    process that takes `num_replicas` times as much, in its order.

    Raises: ValueError for a rank that does not exist.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        batch_size: int | None = None,
    ) -> None:
        own_rank, ranks = rank_slot.call()
        self.num_replicas = ranks if num_replicas is None else num_replicas
        self.rank = own_rank if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        self.dataset = dataset
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        self.batch_size = batch_size
        whole, rest = divmod(len(dataset), self.num_replicas)
        self.num_samples = whole if drop_last or not rest else whole + 1
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self.dataset)))
        if self.shuffle:
            order = Generator().manual_seed(self.seed + self.epoch).randperm(len(order)).tolist()
        order = list(islice(cycle(order), self.total_size))
        if self.batch_size is None:
            return iter(order[self.rank :: self.num_replicas])
        return iter(self._take_neighbours(order, self.batch_size))

    def _take_neighbours(self, order: list[int], size: int) -> Iterator[int]:
        """Yield this replica's part of each batch of all; of the last, smaller one the same share."""
        for begin in range(0, len(order), size * self.num_replicas):
            batch = order[begin : begin + size * self.num_replicas]
            share = len(batch) // self.num_replicas
            yield from batch[self.rank * share : (self.rank + 1) * share]

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which decides the order; without a call each epoch has the same."""
        self.epoch = epoch


def draw_seed(generator: Generator | None = None) -> int:
    """Draw a seed, an integer below 2⁶³, from a generator, or from the default one.

    Raises: TraceError while a step is being compiled, whose other calls would draw none.
    """
    refuse_while_tracing("a pass through a DataLoader")
    return int((generator or default_generator).random((), np.int64))
