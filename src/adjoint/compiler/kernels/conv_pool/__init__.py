"""Convolution and pooling.

Modules, in reading order:

- `blocking`: The blocks of registers of a convolution's result: some channels by some vectors of places.
- `padded_image`: A framed image: what a convolution reads of one image, copied so that every tap's elements are
  neighbours.
- `staging`: A result in scratch memory before it is finished, its elements apart by where they lie between two steps.
- `conv_plan`: The plan of a direct convolution: which phases it has, how an image is framed, how the work is cut.
- `conv_weight_plan`: The plan of the gradient of a convolution's weight: what is in registers, what a tile owns.
- `pooling_plan`: The plan of a pooling kernel: where windows stand, which are inside, where a gradient waits for its
  other parts.
- `window_edges`: Windows that reach over the edges of an image: the loops along an axis, and the lanes that are
  inside.
- `conv`: Direct convolution, forward and towards the input: sums in registers over a framed image, without columns.
- `conv_weight_grad`: The gradient of a convolution's weight: sums over images and places.
- `pooling`: Pooling, forward and towards the input: a tile takes whole images, lanes run along a row of windows.
- `windowed_op`: The equations that slide windows over images, with the planner and the writer of each.
- `lowering`: Convolution and pooling, forward and backward, as kernels of a graph.
- `window_geometry`: The geometry of windows over images: their slices, rows and columns, and dimensions that are one
  to a kernel.
- `channel_lanes`: Convolutions whose lanes are channels: of small images, and by Winograd's squares.
"""
