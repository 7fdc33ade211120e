"""Compiled kernels for eager calls.

Modules, in reading order:

- `bound_kernel`: A recipe, which is machine code and what each word of its tables is, and the kernel that is bound
  from it.
- `recipes`: Recipes of kernels for eager calls: one function of arrays, traced, fused and lowered once for each set
  of shapes.
- `kernels`: Kernels for eager calls, which are kept on disk whole: another process runs them without the passes and
  LLVM.
"""
