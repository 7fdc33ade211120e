"""The public functions, each written once; `method` makes one a method of Tensor too.

Modules, in reading order:

- `api`: Tools for public functions: publishing, `out=`, dimensions, dtypes, memory formats.
- `creation`: Functions that make tensors, storages and random numbers.
- `indexing`: Indexing, gathering and scattering.
- `shape`: Functions that change shapes, join and split.
- `linalg`: Linear algebra: products, factorizations, solutions, spectra, norms.
- `reduction`: Functions that fold dimensions, sort, or count.
- `elementwise`: Functions of each element by itself, and activations.
- `loss`: Losses.
- `nn`: Functions of neural networks: convolution, pooling, normalization, attention, recurrence.
- `signal`: Fourier transforms, spectrograms and windows.
- `sparse`: Sparse tensors, as `torch.sparse` has them: coordinate and compressed layouts, and the functions that take
  them.
"""
