"""`adjoint.version` and `adjoint.__config__`: the version of PyTorch that is followed, and how adjoint was built."""

from __future__ import annotations

import numpy as np

from adjoint.core.runtime.threads import get_num_threads

__version__ = "2.13.0"
debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
git_version = "unknown"


def show() -> str:
    """Return one line for each part of the build."""
    return f"adjoint built with:\n  - NumPy {np.__version__}\n  - CPU only, USE_CUDA=OFF, USE_MKL=OFF\n"


def parallel_info() -> str:
    """Return the number of threads, as text."""
    return f"adjoint parallel info:\n\tget_num_threads() : {get_num_threads()}\n"
