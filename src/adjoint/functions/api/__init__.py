"""Tools for public functions: publishing, `out=`, dimensions, dtypes, memory formats.

Modules, in reading order:

- `compute_dtype`: Precision in which a function computes: 16-bit floats in float32 from end to end, and the dtype of
  autocast.
- `dim_args`: Normalization of dimension arguments, which may count from either end.
- `lazy_index`: Functions and methods that few programs use: their modules are imported when a name is first asked
  for.
- `legacy_overloads`: Legacy overloads of `addmm` and its kin: positional factors beta and alpha before the tensors
  that they scale.
- `memory_format`: Memory order of elements: copies keep it, and random numbers fill memory in it, as in PyTorch.
- `out`: The argument `out=`: its checks of dtype, memory and gradients, and the write.
- `return_types`: Named tuples of values and indices, printed under the name of the function that returned them.
- `publish`: Publication of functions: as Tensor methods and in-place methods, with the keywords of both standards.
- `channels_last`: Functions of images whose channels come last in memory: results and gradients do so too.
- `lazy_table`: Names of adjoint.functions that load their modules on demand: made by tools/lazy_names.py, not to be
  edited.
- `out_dtype`: Dtypes of `out=`: most functions ask for exactly the dtype of their result, others for one that can
  hold it.
- `quiet_write`: In-place writes that change nothing but elements: where no history exists or is recorded, NumPy
  writes them.
"""
