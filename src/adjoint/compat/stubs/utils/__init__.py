"""Stand-ins for parts of `torch.utils`.

Modules, in reading order:

- `benchmark`: `adjoint.utils.benchmark`: a timer of statements.
- `dataloader`: `torch.utils.data.dataloader`, with its `_utils.pin_memory`: loaders, and types for annotations.
"""
