"""Sparse tensors, as `torch.sparse` has them: coordinate and compressed layouts, and the functions that take them.

Modules, in reading order:

- `conversion`: Conversions of sparse tensors: to dense and back, between layouts and types.
- `creation`: Sparse tensors from indices and values, checked, in each layout.
- `elementwise`: Element-wise functions of sparse tensors: those that keep zero, sums, products, and in-place forms.
- `methods`: The methods of every tensor that concern sparse layouts.
- `movement`: Shapes of sparse tensors: transposes, slices, joins.
- `namespace`: `adjoint.sparse`: functions of sparse tensors under PyTorch's names.
- `printing`: The printed form of a sparse tensor, which is PyTorch's.
- `product`: Products of sparse matrices: with dense matrices and vectors, with each other, and at the places of a
  pattern.
- `reduction`: Reductions of sparse tensors: sums, norms, and softmax over the values that are there.
- `scipy_interop`: SciPy's sparse matrices in and out: values and indices share memory where their types allow it.
- `sparse_tensor`: The sparse tensor: a dense tensor of values, and a pattern that says where they stand.
- `product_functions`: Products of sparse matrices under the names that PyTorch gave them before `sparse.mm`.
- `row_gradient`: The sparse gradient of a table in a traced step: its rows have no values there, they are those of
  each call.
"""
