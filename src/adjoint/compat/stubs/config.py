"""`adjoint.__config__`: how the library was built, which PyTorch tells as text."""

from __future__ import annotations

import numpy as np

from adjoint.core.runtime.threads import get_num_threads


def show() -> str:
    """One line for each part."""
    return f"adjoint built with:\n  - NumPy {np.__version__}\n  - CPU only, USE_CUDA=OFF, USE_MKL=OFF\n"


def parallel_info() -> str:
    """The number of threads."""
    return f"adjoint parallel info:\n\tget_num_threads() : {get_num_threads()}\n"
