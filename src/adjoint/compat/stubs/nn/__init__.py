"""Parts of `torch.nn` that exist for programs alone.

Modules, in reading order:

- `module_hooks`: `Module` and the hooks for all modules, under the name by which programs written for PyTorch import
  them.
- `parallel`: Modules that PyTorch spreads over devices or processes, of which there is one.
- `internals`: Names of PyTorch's private modules that programs use to write modules and losses, and to choose among
  kernels.
"""
