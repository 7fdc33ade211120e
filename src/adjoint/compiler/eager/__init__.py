"""Compiled kernels for eager calls.

Modules, in reading order:

- `bound_kernel`: A recipe, which is machine code and what each word of its tables is, and the kernel that is bound
  from it.
- `recipes`: Recipes of kernels for eager calls: one function of arrays, traced, fused and lowered once for each set
  of shapes.
- `kernels`: Kernels for eager calls, which are kept on disk whole: another process runs them without the passes and
  LLVM.
- `elementwise`: Kernels of functions of elements for eager calls: a function of tensors, traced, as one loop over
  arrays of any size.
- `elementwise_text`: The text of a kernel of elements: the function is traced once for each type, and its equations
  become one loop.
- `product_tiles`: Parts of a large product on the pool of threads: NumPy's BLAS computes each, and no two wait for
  each other.
- `row_kernels`: Kernels along a dimension for eager calls: one text for all shapes, bound once for each layout of the
  operands.
"""
