"""Ops of neural networks that have kernels of their own.

Modules, in reading order:

- `attention`: Scaled dot product attention of stacks of heads, and its gradient, without the matrix of all weights.
- `convolution`: Convolution and its two transposes: each is bilinear, and the gradients of each are the other two.
- `normalization`: Normalisation to mean 0 and variance 1: one op in eager mode, composed of other ops in compiled
  steps.
- `pooling`: Sums and maxima of windows over the last dimensions, and their transposes.
"""
