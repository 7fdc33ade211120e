"""Ways to train on several ranks, beside `DistributedDataParallel`, under PyTorch's names.

Modules, in reading order:

- `join`: Uneven inputs: a rank that has no more batches answers the collectives of the others until all have ended.
- `zero_redundancy_optimizer`: `ZeroRedundancyOptimizer`: each rank keeps the state of its share of the parameters,
  and updates only these.
- `sync_batch_norm`: `nn.SyncBatchNorm`: batch normalisation by the statistics of all ranks' batches.
- `comm_hooks`: Communication hooks of `DistributedDataParallel`: what averages the gradients of a bucket in place of
  a plain sum.
- `power_sgd`: PowerSGD: gradients of matrices are exchanged as products of two narrow ones.
- `model_averaging`: Local SGD: ranks train apart for some steps, and then average their parameters.
"""
