"""Accelerators, of which there are none: questions have answers, orders raise.

Modules, in reading order:

- `accelerator`: `adjoint.accelerator`: the accelerator of the machine.
- `amp_classes`: `autocast` and `GradScaler` by their older names, one of each for a kind of device: they warn, and do
  the same.
- `backend_flags`: The settings of one library as a module: plain values are attributes, what PyTorch has as a
  function is one.
- `checkpoint_devices`: What programs that compute twice ask of accelerators, of which there are none: their
  generators' states.
- `mps`: `adjoint.mps`: what programs ask of Apple's accelerator.
- `nvtx`: `adjoint.cuda.nvtx`: marks for a profiler of CUDA devices, which nobody reads here.
- `xpu`: `adjoint.xpu`: what programs ask of Intel's accelerators.
- `backends`: `adjoint.backends`: libraries and settings of PyTorch's.
- `cpu_amp`: The older names of what is in `adjoint.amp`, for the CPU.
- `cuda`: `adjoint.cuda`: what programs ask of a CUDA device.
- `cuda_amp`: The older names of what is in `adjoint.amp`, for a CUDA device: without one they warn and do nothing.
- `cpu`: `adjoint.cpu`: what programs ask of the CPU as a device.
"""
