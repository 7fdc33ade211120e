"""Parts of `torch.nn` that exist for programs alone.

Modules, in reading order:

- `attention_kernels`: PyTorch's choice among implementations of attention: there is one here, so that each choice
  computes the same.
- `common_types`: Names for numbers given once or for each dimension, which programs annotate with.
- `module_hooks`: `Module` and the hooks for all modules, under the name by which programs written for PyTorch import
  them.
- `parallel`: Modules that PyTorch spreads over devices or processes, of which there is one.
- `reduction`: How losses are reduced, by PyTorch's numbers and by its names of old: what losses written for PyTorch
  ask.
- `tuples`: What modules are written with: one number for each dimension.
"""
