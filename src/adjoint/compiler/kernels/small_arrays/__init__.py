"""Routines: native functions for small arrays of any size, which eager calls take where NumPy would need several.

Modules, in reading order:

- `entry`: The entry of a routine: a function for Python that checks its operands itself, and refuses what is not for
  it.
- `elementwise`: Functions of each element by itself.
- `gather_row`: One element of each row by its index: gather, and the negative log likelihood.
- `optimizer_updates`: Whole updates of a parameter by an optimizer, in place: rounded where the optimizer's own
  operations round.
- `row_loop`: The rows of small arrays, which are their last dimension, and what routines do along one.
- `normalization`: Normalisation of rows to mean 0 and variance 1, and its gradients.
- `row_reductions`: Sums and extremes along rows.
- `softmax`: Softmax and its logarithm along rows, and their gradients.
- `catalogue`: All routines, by name.
- `loading`: A routine as a function for Python: from code that an earlier process left on disk, else written now.
"""
