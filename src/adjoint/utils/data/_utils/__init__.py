"""The parts of a loader, where programs written for PyTorch look for them."""

from __future__ import annotations

from adjoint.core.elsewhere import place

place(__name__, {"collate": "adjoint.data.collate", "fetch": "adjoint.data.fetch", "worker": "adjoint.data.worker"})
