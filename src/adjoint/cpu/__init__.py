"""`adjoint.cpu`: what programs ask of the CPU as a device."""

from __future__ import annotations

from adjoint.cpu import amp as amp

__all__ = ["amp"]
