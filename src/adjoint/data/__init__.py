"""Datasets, the orders in which to go through them, and batches.

Modules, in reading order:

- `collate`: Collation: a list of samples becomes one batch of the same structure.
- `dataset`: Datasets: samples by index, or in a stream.
- `sampler`: Samplers: orders of a dataset's indices, one by one or in batches.
- `worker_pipe`: Transfer of values between processes: a pickle through a pipe, followed by the memory of large
  arrays.
- `fetch`: Fetchers: functions from the indices of a batch to the collated samples of a dataset.
- `worker`: Worker process of a loader: it fetches batches, and reports its errors.
- `worker_pool`: Pool of a loader's worker processes: it assigns the batches and hands them out in order.
- `loader`: Data loader: a dataset in batches, in order or shuffled as PyTorch shuffles it from the same seed.
"""

from __future__ import annotations

from adjoint.data.collate import default_collate, default_convert
from adjoint.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from adjoint.data.loader import DataLoader
from adjoint.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from adjoint.data.worker import get_worker_info

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset", "SubsetRandomSampler", "TensorDataset",
    "WeightedRandomSampler", "default_collate", "default_convert", "get_worker_info", "random_split",
]  # fmt: skip
