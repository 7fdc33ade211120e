"""`adjoint.signal`: what is done to signals, as `torch.signal` has it."""

from adjoint.signal import windows

__all__ = ["windows"]
