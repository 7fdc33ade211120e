"""Routines: native functions for small arrays of any size, which eager calls take where NumPy would need several.

Modules, in reading order:

- `entry`: The entry of a routine: a function for Python that checks its operands itself, and refuses what is not for
  it.
- `elementwise`: Functions of each element by itself.
- `gather_row`: One element of each row by its index: gather, and the negative log likelihood.
- `row_loop`: The rows of small arrays, which are their last dimension, and what routines do along one.
- `row_reductions`: Sums, norms, extremes and leading elements of rows.
- `softmax`: Softmax, its logarithm and the logarithm of a sum of exponentials along rows, and their gradients.
- `catalogue`: All routines, by name.
- `loading`: A routine as a function for Python: from code that an earlier process left on disk, else written now.
- `panel_product`: The product of a few rows with a matrix that is packed in panels: the part of a recurrent step that
  reads weights.
- `recurrent_steps`: The steps over time of a recurrent layer, forward and backward: a product with the packed weight,
  then the gates.
- `few_queries`: Attention of a few queries, such as the one of a token that is decoded with a cache of keys and
  values.
- `sparse_product`: Products of a sparse matrix, given by the row, column and value of each entry: with a dense
  matrix, and sampled.
- `ctc_steps`: The recursion of connectionist temporal classification over all times, and its gradient back through
  them.
- `column_folds`: Sums and extremes over dimensions before the last, of (outer, rows, columns) over the rows.
- `broadcast_arithmetic`: Sums, differences, products and quotients of arrays that broadcast, with the bits of
  NumPy's.
- `joining`: Arrays joined along a dimension: copied row by row into a new one, in a third of the time of NumPy's
  call.
- `images`: Routines for images.
- `norms`: Routines of normalisation.
"""
