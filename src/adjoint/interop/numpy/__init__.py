"""NumPy's protocols: its ufuncs and functions called with tensors.

Modules, in reading order:

- `ufuncs`: NumPy's and SciPy's ufuncs by name, and the function of the library that each stands for.
- `arrangement`: NumPy's functions that make, move, join and choose elements, under NumPy's signatures.
- `linalg`: NumPy's products, linear algebra and Fourier transforms, under NumPy's signatures.
- `statistics`: NumPy's sums, means, extremes, orders and differences, under NumPy's signatures.
- `function_protocol`: `np.concatenate([tensor, …])` and its kind: NumPy's functions as functions of the library, on
  the tape.
"""
