"""`adjoint.utils._python_dispatch`: PyTorch's way to see all ops in a block; here blocks run as without."""

from __future__ import annotations

from typing import Any

from adjoint.compat.absent_device import NoStream


class TorchDispatchMode(NoStream):
    """A block that runs as without."""

    def __init__(self, _dispatch_key: Any = None) -> None:
        super().__init__()


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """False: tensors hold their elements themselves."""
    return False
