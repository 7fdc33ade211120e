"""Rewrites of whole expressions, which no rule of one equation and its operands can say.

Modules, in reading order:

- `sums`: Sums of many terms in a graph: trees of additions whose inner results nobody else reads.
- `slice_gradients`: Gradients of slices: a sum of arrays that are zero but for a slice is the slices side by side.
- `matmul_rewrites`: Rewrites of matrix products: one long product for a sum of many, operands transposed in place of
  results.
- `gated_matmul`: Matrix products by one weight again and again: it is copied once into panels, all gates of a unit
  side by side.
"""
