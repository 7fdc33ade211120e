"""Ops that move elements and compute nothing.

Modules, in reading order:

- `as_strided`: Views at given strides, sliding windows and the diagonal, with their transposes.
- `memory_format`: Elements in another order in memory, such as images with their channels last, and bits read as
  another type.
- `movement`: Moving elements without computing any: each op's gradient is the movement back.
- `sliding_windows`: Sliding windows over the last dimensions, and their transpose.
- `split`: Splits of a tensor along one dimension: the pieces are views, and one node makes them all.
"""
