"""Parts of `torch.utils` that exist for programs alone.

Modules, in reading order:

- `benchmark`: `adjoint.utils.benchmark`: how long a statement takes.
- `dataloader`: Loaders, under the name by which programs written for PyTorch import them.
- `foreach_utils`: Lists of tensors in groups of one type, under the name by which optimizers written for PyTorch
  import it.
- `python_dispatch`: `adjoint.utils._python_dispatch`: PyTorch's way to see all ops in a block.
- `tensorboard`: `adjoint.utils.tensorboard`: writing what TensorBoard shows, by the package tensorboardX.
"""
