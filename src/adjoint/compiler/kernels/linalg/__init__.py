"""Factorizations and solutions of stacks of matrices, out of one step: a few rows less a product, then solved.

Modules, in reading order:

- `eager`: Factorizations and solutions for eager calls, of stacks of any shape: the kernels of compiled steps, called
  directly.
- `factor_solve`: Cholesky's factorization of one matrix, and the solution of one triangular system, out of blocks of
  rows.
- `lowering`: Factorizations and solutions of stacks of matrices as kernels of a graph.
- `plan`: Places of the matrices of a stack: the numbers of a kernel's table, for arrays and for a graph's values.
- `row_block`: The step that all factorizations and solutions are made of: a few rows less a product, then solved or
  factored.
- `stack_kernels`: Kernels over stacks of matrices: each tile computes some of the matrices, whose sizes and steps are
  numbers.
- `lu`: L and U of one matrix, by elimination with row exchanges: panels of columns, each brought up to date when it
  comes.
- `lane_kernels`: Kernels over stacks of small matrices, a group of which is computed at once: one matrix in each
  lane.
- `lane_matrices`: Small matrices, one in each lane of a register: a factorization of one number after another does
  all of them.
"""
