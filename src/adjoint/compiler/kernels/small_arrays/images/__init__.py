"""Routines for images.

Modules, in reading order:

- `resampling`: Sums of few elements along a dimension, by positions and weights: what interpolation is made of.
- `grid_sampling`: Images looked up bilinearly at the places of a grid, and the gradients in the images and in the
  grid.
- `window_pooling`: Sums and maxima of windows over the last two dimensions, and the gradient of the maxima.
"""
