"""The sampler of one of several processes, under the name by which programs written for PyTorch import it."""

from __future__ import annotations

from adjoint.data import DistributedSampler

__all__ = ["DistributedSampler"]
