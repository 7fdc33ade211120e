"""Stand-ins for devices: accelerators are absent, so questions have answers and orders raise.

Modules, in reading order:

- `backends`: `adjoint.backends`: PyTorch's libraries and their settings.
- `cpu_amp`: `adjoint.cpu.amp`: `autocast` and `GradScaler` by older names, which warn.
- `cuda`: `adjoint.cuda`: CUDA devices, of which there is none: `is_available()` is False.
- `cuda_amp`: `adjoint.cuda.amp`: `autocast` and `GradScaler` by older names, which warn.
- `cpu`: `adjoint.cpu`: the CPU as a device.
- `absent`: Accelerators that are absent, as a table: questions about them have answers, orders and handles raise.
- `cuda_on_cpu`: `adjoint.cuda` and `adjoint.accelerator` where CUDA means the CPU: `python -m adjoint.run
  --cuda=cpu`.
"""
