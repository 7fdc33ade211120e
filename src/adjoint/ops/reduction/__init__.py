"""Ops that fold dimensions.

Modules, in reading order:

- `reduction`: Reductions: sums, products, extremes.
- `scan`: Running products and sums of exponentials, and the linear recurrence of their gradients.
- `variance`: Variance, standard deviation and Euclidean norm: one op in eager mode, composed of other ops in compiled
  steps.
- `summation`: Sums of arrays as NumPy does them, but for float16 and for long columns, where its rounding errors pile
  up.
- `logsumexp`: ln Σ eˣ over dimensions, computed so that nothing overflows: the largest element is subtracted first.
- `native_fold`: Sums and extremes over any dimensions of dense arrays by native code.
"""
