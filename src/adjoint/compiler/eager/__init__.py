"""Compiled kernels for eager calls.

Modules, in reading order:

- `kernels`: Kernels for eager calls, which are kept on disk whole: another process runs them without the passes and
  LLVM.
- `recipes`: Recipes of kernels for eager calls: one function of arrays, traced, fused and lowered once for each set
  of shapes.
"""
