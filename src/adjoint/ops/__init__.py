"""The primitives, each declared once: a NumPy function, its gradient rules, its spec and its lowering.

Modules, in reading order:

- `creation`: Creation of tensors, as ops: a compiled step makes them anew on each run.
- `multi_output`: Several results of one node, computed as parts of one array.
- `operators`: Python's operators on tensors: one table.
- `special`: Special functions: gamma, error, Bessel, zeta and their kin.
- `elementwise`: Ops that work on each element by itself.
- `movement`: Ops that move elements and compute nothing.
- `reduction`: Ops that fold dimensions.
- `indexing`: Ops that read or write at computed positions, and those that sort.
- `linalg`: Linear algebra: products, factorizations, solutions and spectra.
- `random`: Ops that draw random numbers.
- `mutation`: Writes into tensors and into views of them.
- `nn`: Ops of neural networks that have kernels of their own.
- `collectives`: Exchanges between ranks, as ops with an effect: a compiled step makes them in the order in which it
  was traced.
"""
