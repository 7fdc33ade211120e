"""Ops that move elements and compute nothing.

Modules, in reading order:

- `as_strided`: Views at strides of one's own, and the diagonal.
- `memory_format`: The same elements in another order in memory, of values and of gradients: images with their
  channels last, say.
- `movement`: Moving elements without computing any: each op's gradient is the movement back.
- `sliding_windows`: Sliding windows over the last dimensions, and their transpose.
- `split`: Taking a tensor apart along one dimension: all the pieces are views, and one node in the graph made them
  all.
"""
