"""Ops that move elements and compute nothing.

Modules, in reading order:

- `as_strided`: Views at strides of one's own, and the diagonal.
- `memory_format`: Elements in another order in memory, such as images with their channels last, and bits read as
  another type.
- `movement`: Moving elements without computing any: each op's gradient is the movement back.
- `sliding_windows`: Sliding windows over the last dimensions, and their transpose.
- `split`: Taking a tensor apart along one dimension: all the pieces are views, and one node in the graph made them
  all.
"""
