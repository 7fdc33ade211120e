"""`adjoint.signal`: windows of signals, as `torch.signal` has them."""

from adjoint.functions.signal import torch_windows as windows

__all__ = ["windows"]
