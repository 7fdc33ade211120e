"""Ops of neural networks that have kernels of their own.

Modules, in reading order:

- `attention`: Scaled dot product attention of stacks of heads, and its gradient, without the matrix of all weights.
- `convolution`: Convolution and its two transposes: each is bilinear, and the gradients of each are the other two.
- `normalization`: Normalisation to mean 0 and variance 1: one op in eager mode, composed of other ops in compiled
  steps.
- `pooling`: Sums and maxima of windows over the last dimensions, and their transposes.
- `activation`: Activation functions of single elements: each one op and one kernel in eager mode, composed of ops in
  compiled steps.
- `loss_terms`: The terms of losses, one for each element: one op and one kernel in eager mode, composed of ops in
  compiled steps.
- `native_norms`: Native evaluation of normalisations and their gradients, for arrays of any shape.
- `recurrent_kinds`: The steps of each kind of recurrent layer in NumPy, and the arrays that its native steps take.
- `recurrent_steps`: The run of a recurrent layer over its steps, on arrays: the products with the weight, and who
  computes the rest.
- `recurrent_record`: A recurrent layer's run over any number of steps as one op, for compiled steps whose sequences
  have any length.
"""
