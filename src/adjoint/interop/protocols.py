"""Implementation of the protocols that tensors offer other libraries (`core/tensor/protocols.py`)."""

from __future__ import annotations

from typing import Any

from adjoint.functions.creation.buffers_dlpack import export_capsule
from adjoint.interop import array_api
from adjoint.interop.numpy.function_protocol import function
from adjoint.interop.numpy.ufuncs import ufunc

__all__ = ["export_capsule", "function", "namespace", "ufunc"]

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def namespace(api_version: str | None) -> Any:
    """Return `adjoint.interop.array_api`. Raises ValueError for versions of the standard that it does not implement."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(f"array API {api_version!r}: adjoint.interop.array_api implements {VERSIONS[-1]}")
    return array_api
