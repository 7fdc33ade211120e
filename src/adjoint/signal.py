"""`adjoint.signal`: what is done to signals, as `torch.signal` has it."""

from adjoint.functions.signal import torch_windows as windows

__all__ = ["windows"]
