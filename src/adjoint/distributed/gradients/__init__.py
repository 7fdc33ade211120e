"""Gradients of several ranks: which parts of a batch they are of, and how ranks add them up.

Modules, in reading order:

- `batch_shards`: Shards of a global batch: the same bits for any number of ranks, as the same parts are added in one
  order.
- `gradient_bucket`: Buckets of gradients: memory in which ranks add up the gradients of some parameters in one
  exchange.
- `reducer`: Gradients of all ranks, averaged bucket by bucket while backward goes on.
"""
