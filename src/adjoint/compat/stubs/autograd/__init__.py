"""Parts of `torch.autograd` that exist for programs alone.

Modules, in reading order:

- `variable`: `Variable`: what tensors with a history were called once.
- `versions`: Versions put back, and how views keep up with writes: what programs for PyTorch's internals ask of
  autograd.
"""
