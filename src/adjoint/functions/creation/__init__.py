"""Functions that make tensors, storages and random numbers.

Modules, in reading order:

- `buffers_dlpack`: Memory shared with others: DLPack both ways, and whatever has a buffer.
- `linspace`: Numbers equally far apart, bit for bit those of PyTorch: counted from the nearer end, each rounded once.
- `random`: Random tensors: PyTorch's own CPU numbers for the same seed.
- `sampling`: Samples of the less usual distributions: PyTorch's own CPU numbers for the same seed.
- `creation`: Tensors from data, from a fill value, from a range.
- `typed_storage`: The memory of tensors by itself: bytes, or elements of a type, one after another.
- `ranges`: Numbers in a row, in geometric steps or with the end included.
- `shared_memory`: Memory that several processes see: `share_memory_()`, and how such a tensor travels to another
  process.
"""
