"""Datasets, the orders in which to go through them, and batches.

Modules, in reading order:

- `collate`: From a list of samples to one batch of the same structure.
- `dataset`: Collections of samples: by index, or one after the other.
- `sampler`: Orders in which to go through a dataset, as indices or as batches of them.
- `worker_pipe`: Values between two processes: a pickle through a pipe, and behind it the memory of large arrays as it
  lies.
- `distributed`: The share of a dataset that one of several processes goes through.
- `fetch`: From the indices of a batch to the batch: a dataset's samples, collated.
- `worker`: A process that fetches batches for another: what it does, what it knows of itself, and how it reports an
  error.
- `worker_pool`: The worker processes of a loader: who is given which batch, and in which order the batches are handed
  out.
- `loader`: A dataset as batches, in order or shuffled as PyTorch shuffles it from the same seed.
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
from adjoint.data.distributed import DistributedSampler
from adjoint.data.loader import DataLoader
from adjoint.data.sampler import (
    BatchSampler,
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
