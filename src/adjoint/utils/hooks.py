"""Handles of hooks, under the name by which programs written for PyTorch import them."""

from __future__ import annotations

from adjoint.core.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
