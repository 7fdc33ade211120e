"""The parts of a loader, where programs written for PyTorch look for them."""

from __future__ import annotations

from adjoint.data import collate as collate
from adjoint.data import worker as worker
