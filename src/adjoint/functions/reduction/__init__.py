"""Functions that fold dimensions, sort, or count.

Modules, in reading order:

- `reduce`: Sums, means, extremes and truths over dimensions.
- `statistics`: Covariances, correlations, and histograms of one dimension and of several.
- `cumulative`: Running products, sums of exponentials and extremes.
- `sort_quantile_unique`: What follows from an order: medians, quantiles, modes, distinct elements, places in sorted
  sequences, counts.
- `numerical_calculus`: Slopes and areas of sampled functions: differences over distances, and sums of trapezoids.
- `segment_reduce`: Reductions over segments: stretches of one dimension, of lengths of their own.
"""
