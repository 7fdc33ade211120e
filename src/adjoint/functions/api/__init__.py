"""Tools for public functions: publishing, `out=`, dimensions, dtypes, memory formats.

Modules, in reading order:

- `compute_dtype`: In which precision a function computes: bfloat16 in float32 from end to end, and what autocast asks
  for.
- `dim_args`: Dimensions as people write them, counted from either end, brought to one form.
- `lazy_index`: Functions and methods that few programs use: their modules are imported when a name is first asked
  for.
- `legacy_overloads`: Products added to a tensor as programs of old call them: the factors beta and alpha ahead of
  what they scale.
- `memory_format`: The order in which elements lie in memory: copies keep it, and random numbers fill memory in it, as
  in PyTorch.
- `out`: Which types `out=` may have: any that its result can be brought to, and of some functions fewer.
- `return_types`: Pairs of values and the places they came from, named and printed after the function that gave them.
- `publish`: Publishing a function: as a function, as a Tensor method, as an in-place method, under both standards'
  keywords.
- `channels_last`: Functions of images whose channels come last in memory: what they give, and its gradients, lies so
  too.
- `lazy_table`: Names of adjoint.functions that load their modules on demand: made by tools/lazy_names.py, not to be
  edited.
"""
