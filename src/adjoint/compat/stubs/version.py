"""`adjoint.version`: the PyTorch whose behaviour is followed, for programs that ask before they call."""

from __future__ import annotations

__version__ = "2.13.0"
debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version = "unknown"
