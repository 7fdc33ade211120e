"""NumPy's protocols: its ufuncs and functions called with tensors.

Modules, in reading order:

- `ufuncs`: The protocol `__array_ufunc__`: a table of NumPy's and SciPy's ufuncs and their counterparts in the
  library.
- `arrangement`: NumPy's functions that make, move, join and choose elements, under NumPy's signatures.
- `linalg`: NumPy's products, linear algebra and Fourier transforms, under NumPy's signatures.
- `statistics`: NumPy's sums, means, extremes, orders and differences, under NumPy's signatures.
- `function_protocol`: The protocol `__array_function__`: NumPy's functions of tensors, such as
  `np.concatenate([tensor, …])`.
"""
