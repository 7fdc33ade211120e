"""DLPack's capsules, where programs written for PyTorch look for them."""

from __future__ import annotations

from adjoint.functions.exchange import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
