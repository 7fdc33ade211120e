"""Functions of neural networks: convolution, pooling, normalization, attention, recurrence.

Modules, in reading order:

- `channel_ops`: Rearrangements of channels: channel shuffle, and pixel shuffle and unshuffle.
- `dropout`: Dropout of whole channels.
- `embedding`: Encodings of integers: rows of a table (embedding), and one-hot vectors.
- `grid_sample`: Images looked up between their elements, at places that a grid says.
- `normalization`: Normalisation to mean 0 and variance 1, over a layer's features or over a batch.
- `pad`: `pad`: frames of one value, or made of the tensor itself: mirrored, repeated at the edges, joined into a
  ring.
- `pooling`: Pooling: one number for each window.
- `recurrent_fused`: The quick eager form of a recurrent layer: all times in one node, with the gradient through time
  written by hand.
- `unpool_fold`: Elements under sliding windows as columns, and put back where pooling or windows took them from.
- `adaptive_pooling`: Adaptive, fractional and power-average pooling.
- `attention`: Attention: each query's average of the values, weighed by how its key matches theirs.
- `convolution`: Convolutions as PyTorch calls them: correlation of (N, C, D…) with (O, C/groups, K…).
- `embedding_bag`: Rows of a table, looked up by number and brought together bag by bag.
- `group_norm`: Normalisation over groups of channels, and by the root of the mean square.
- `recurrent`: Recurrent cells, and layers of them swept over time: RNN, LSTM and GRU.
- `conv_transpose`: Transposed convolutions as PyTorch calls them, and the convolution of sequences with time in
  front.
- `interpolate`: Interpolation of sequences, images and volumes to other sizes.
- `multihead_attention`: Multi-head attention: projections around scaled dot product attention.
- `per_rank`: Functions for one, two and three dimensions, made from one function that takes the rank.
- `resampling`: Resampling along one dimension: each new element is a sum of few old ones, with weights.
"""
