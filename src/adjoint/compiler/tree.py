"""Arguments and results as trees; the transforms of `autograd` take them apart in the same way."""

from __future__ import annotations

from adjoint.core.tree import LEAF, Structure, flatten, unflatten

__all__ = ["LEAF", "Structure", "flatten", "unflatten"]
