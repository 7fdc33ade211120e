"""Functions that make tensors, storages and random numbers.

Modules, in reading order:

- `buffers_dlpack`: Memory shared with others: DLPack both ways, and whatever has a buffer.
- `random`: Random tensors: PyTorch's own CPU numbers for the same seed.
- `sampling`: Samples of the less usual distributions: PyTorch's own CPU numbers for the same seed.
- `creation`: Tensors from data or from a fill value.
- `typed_storage`: The memory of tensors by itself: bytes, or elements of a type, one after another.
- `shared_memory`: Memory that several processes see: `share_memory_()`, and how such a tensor travels to another
  process.
- `linspace_logspace`: Ranges of numbers that include both ends: in equal steps, or in equal ratios.
"""
