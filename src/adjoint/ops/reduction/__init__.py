"""Ops that fold dimensions.

Modules, in reading order:

- `reduction`: Folding dimensions: sums, products, extremes.
- `scan`: Running products and sums of exponentials, and the recurrence that their gradients are.
- `variance`: Variance and standard deviation, in one op where they run eagerly.
"""
