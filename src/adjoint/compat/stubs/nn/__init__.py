"""Stand-ins for parts of `torch.nn`.

Modules, in reading order:

- `module_hooks`: `torch.nn.modules.module`: `Module` and the hooks for all modules.
- `parallel`: Modules that PyTorch distributes over devices or processes, of which there is one.
- `internals`: Names of PyTorch's private modules that programs use to write modules and losses, and to choose among
  kernels.
- `recurrent`: `adjoint._VF`: recurrent layers as functions of flat lists of weights, under PyTorch's signatures.
"""
