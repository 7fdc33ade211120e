"""Kinds of kernels: from a group of equations to the text of one function.

Modules, in reading order:

- `elementwise`: One equation, one load, of a kernel: from operands in registers to the register of the result.
- `epilogue`: The end of a kernel with a root: what follows its elements one by one, computed on registers, and the
  stores.
- `kernel_text`: A kernel's text that is written only when it is read: what it is made from tells the objects of equal
  ones before.
- `kernel`: The kernel: the text of one function, and how it is to be called.
- `attention`: Scaled dot products of queries and keys, and what they weigh.
- `conv_pool`: Convolution and pooling.
- `gather_scatter`: Reading and writing at positions which are data.
- `loop_nest`: Loop nests: elementwise equations and folds.
- `matmul`: Matrix products.
- `random`: Draws from random streams.
- `small_arrays`: Routines: native functions for small arrays of any size, which eager calls take where NumPy would
  need several.
- `kernel_kinds`: The equations that have a kernel of their own kind: which kind that is, and what of them it accepts.
- `lowerings`: Lowering of groups to kernels, by the kind of their root.
- `index_arithmetic`: Arithmetic on indices, which are registers or numbers known now: no instruction where none is
  needed.
- `plan`: The passes' decision about a step: its graph as it will run, the groups of that, and their kernels.
- `linalg`: Factorizations and solutions of stacks of matrices, out of one step: a few rows less a product, then
  solved.
- `rows`: Work along one dimension: running results, sorting, searches, Fourier transforms, in lines of any number and
  length.
"""
