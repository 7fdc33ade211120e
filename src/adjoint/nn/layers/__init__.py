"""Layers: modules that compute.

Modules, in reading order:

- `activation`: Activation functions as modules.
- `adaptive_pooling`: Layers that pool to a given number of windows, at random or by a power average.
- `attention_bias`: Masks of causal attention as tensors of a class of their own, for queries and keys of different
  numbers.
- `dropout`: Dropout.
- `embedding`: Tables of vectors.
- `flatten`: Changes of shape as modules.
- `group_norm`: Layers that normalise groups of channels, neighbouring ones, or by the root of the mean square.
- `interpolate`: Modules that change the size of images: interpolation, averages, shuffled channels.
- `linear`: Layers made of a matrix product.
- `normalization`: Layers that normalise over a batch or over features.
- `padding`: Modules that frame the last dimensions of a tensor.
- `pooling`: Pooling layers: one number for each window.
- `recurrent`: Recurrent layers: RNN, LSTM and GRU, several of them on top of each other, in one or both directions.
- `recurrent_cells`: One step of a recurrent layer as a module.
- `similarity`: Modules of two inputs: similarity, distance, the bilinear form.
- `attention`: Attention with several heads as a module.
- `convolution`: Convolutional layers.
- `conv_transpose`: Transposed convolutional layers.
- `transformer`: The Transformer: layers of attention and of two linear maps, with norms and residual sums around
  them.
- `lazy`: Layers that learn from their first input how many features or channels it has.
"""
