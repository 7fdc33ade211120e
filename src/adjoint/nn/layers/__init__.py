"""Layers: modules that compute.

Modules, in reading order:

- `activation`: Activation functions as modules.
- `adaptive_pooling`: Adaptive, fractional and power-average pooling layers, and their inverse, max unpooling.
- `attention_bias`: Causal masks of attention as a subclass of Tensor, also for unequal numbers of queries and keys.
- `dropout`: Dropout.
- `embedding`: Tables of vectors.
- `flatten`: Changes of shape as modules.
- `group_norm`: Normalization of groups of channels, of neighbouring channels, and by the root mean square.
- `interpolate`: Modules that change the size of images: interpolation, averages, shuffled channels.
- `linear`: Layers made of a matrix product.
- `normalization`: Layers that normalise over a batch or over features.
- `padding`: Padding layers: a border around the last dimensions.
- `pooling`: Pooling layers: one number for each window.
- `recurrent`: Recurrent layers RNN, LSTM and GRU, stacked, in one or both directions.
- `recurrent_cells`: Recurrent cells: one step of a recurrent layer.
- `similarity`: Modules of two inputs: similarity, distance, the bilinear form.
- `attention`: Attention with several heads as a module.
- `convolution`: Convolutional layers.
- `conv_transpose`: Transposed convolutional layers.
- `transformer`: The transformer: stacks of attention and feed-forward layers, with norms and residual sums.
- `lazy`: Lazy layers, which take the number of features or channels from their first input.
"""
