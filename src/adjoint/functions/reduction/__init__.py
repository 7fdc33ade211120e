"""Functions that fold dimensions, sort, or count.

Modules, in reading order:

- `reduce`: Sums, means, extremes and truths over dimensions.
- `statistics`: Variances, standard deviations, covariances and correlations.
- `cumulative`: Cumulative sums, products, extremes and log-sum-exps.
- `sort_quantile_unique`: Sorting, the k largest, medians, quantiles, modes, distinct elements, and searches in sorted
  sequences.
- `numerical_calculus`: Differences, gradients and integrals of sampled functions.
- `segment_reduce`: Reductions over segments: stretches of one dimension, of lengths of their own.
- `histogram`: Counts of elements: of integers, and in bins of one dimension or several.
- `masked`: Reductions and normalizations of the elements that a mask admits: `adjoint.masked`, as `torch.masked` has
  them.
"""
