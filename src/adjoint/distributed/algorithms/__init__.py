"""Ways to train on several ranks, beside `DistributedDataParallel`, under PyTorch's names.

Modules, in reading order:

- `join`: Uneven inputs: a rank that has no more batches answers the collectives of the others until all have ended.
- `zero_redundancy_optimizer`: `ZeroRedundancyOptimizer`: each rank keeps the state of its share of the parameters,
  and updates only these.
- `sync_batch_norm`: `nn.SyncBatchNorm`: batch normalisation by the statistics of all ranks' batches.
"""
