"""Convolutions whose lanes are channels: of small images, and by Winograd's squares.

Modules, in reading order:

- `channels_last`: Images in scratch memory whose channels are neighbours, and products of their rows with weights.
- `channel_conv_plan`: The plan of a convolution whose lanes are the result's channels: for small images, of which
  rows fill no register.
- `channel_conv`: Convolution of small images, forward and towards the input, with lanes that are the result's
  channels.
- `winograd_transforms`: Winograd's transforms of F(2×2, 3×3): of an image, of a weight, of a result, and of their
  gradients.
- `winograd_shape`: The shape of convolutions by squares: which go so, in what squares, bands and chunks, and what
  each part takes.
- `winograd_plan`: The plans of convolutions by squares: which take less time so, what is in registers, what a tile
  owns.
- `exact_sums`: Convolutions term by term, for numbers that are not finite: what no window sees has no part in a
  result.
- `winograd`: Convolution by squares, forward and towards the input: Winograd's F(2×2, 3×3), with lanes that are
  channels.
- `winograd_weight`: The gradient of a convolution's weight by squares: Winograd's F(2×2, 3×3), with lanes that are
  the result's channels.
- `winograd_weight_plan`: The plan of the gradient of a weight by squares: how many are summed at a time, and what a
  tile owns.
"""
