"""Layers: modules that compute.

Modules, in reading order:

- `activation`: Activation functions as modules.
- `adaptive_pooling`: Adaptive, fractional and power-average pooling layers, and their inverse, max unpooling.
- `attention_bias`: Masks of causal attention as tensors of a class of their own, for queries and keys of different
  numbers.
- `dropout`: Dropout.
- `embedding`: Tables of vectors.
- `flatten`: Changes of shape as modules.
- `group_norm`: Normalization of groups of channels, of neighbouring channels, and by the root mean square.
- `interpolate`: Modules that change the size of images: interpolation, averages, shuffled channels.
- `linear`: Layers made of a matrix product.
- `normalization`: Layers that normalise over a batch or over features.
- `padding`: Padding layers: a border around the last dimensions.
- `pooling`: Pooling layers: one number for each window.
- `recurrent`: Recurrent layers: RNN, LSTM and GRU, several of them on top of each other, in one or both directions.
- `recurrent_cells`: One step of a recurrent layer as a module.
- `similarity`: Modules of two inputs: similarity, distance, the bilinear form.
- `attention`: Attention with several heads as a module.
- `convolution`: Convolutional layers.
- `conv_transpose`: Transposed convolutional layers.
- `transformer`: The transformer: stacks of attention and feed-forward layers, with norms and residual sums.
- `lazy`: Layers that learn from their first input how many features or channels it has.
"""
