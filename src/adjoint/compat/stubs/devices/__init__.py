"""Accelerators, of which there are none: questions have answers, orders raise.

Modules, in reading order:

- `backends`: `adjoint.backends`: PyTorch's libraries and their settings.
- `cpu_amp`: `adjoint.cpu.amp`: `autocast` and `GradScaler` by older names, which warn.
- `cuda`: `adjoint.cuda`: what programs ask of a CUDA device.
- `cuda_amp`: `adjoint.cuda.amp`: `autocast` and `GradScaler` by older names, which warn.
- `cpu`: `adjoint.cpu`: what programs ask of the CPU as a device.
- `absent`: Accelerators that are absent, as a table: questions about them have answers, orders and handles raise.
"""
