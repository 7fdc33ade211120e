"""Parts of `torch.utils` that exist for programs alone.

Modules, in reading order:

- `benchmark`: `adjoint.utils.benchmark`: how long a statement takes.
- `dataloader`: Loaders, under the name by which programs written for PyTorch import them.
- `tensorboard`: `adjoint.utils.tensorboard`: writing what TensorBoard shows, by the package tensorboardX.
"""
