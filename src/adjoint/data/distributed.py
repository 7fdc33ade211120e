"""The share of a dataset that one of several processes goes through."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

from adjoint.core.random.generator import Generator
from adjoint.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index from `rank` on, of an order that all replicas shuffle alike from `seed` + epoch.

    All get equally many: the first indices come again at the end, or with `drop_last` the last are left out. Without
    `num_replicas` and `rank` this process is the only one. Raises ValueError for a rank that does not exist.
    """

    def __init__(
        self, dataset: Any, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True,
        seed: int = 0, drop_last: bool = False,
    ) -> None:  # fmt: skip
        self.num_replicas = 1 if num_replicas is None else num_replicas
        self.rank = 0 if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        self.dataset = dataset
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        whole, rest = divmod(len(dataset), self.num_replicas)
        self.num_samples = whole if drop_last or not rest else whole + 1
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self.dataset)))
        if self.shuffle:
            order = Generator().manual_seed(self.seed + self.epoch).randperm(len(order)).tolist()
        return iter(list(islice(cycle(order), self.total_size))[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch; without it all have the same."""
        self.epoch = epoch
