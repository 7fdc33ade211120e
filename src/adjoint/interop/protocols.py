"""The answers to what other libraries ask a tensor (`core/protocols.py`)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from adjoint import array_api
from adjoint.functions.exchange import capsule
from adjoint.interop.numpy_functions import function
from adjoint.interop.numpy_ufuncs import ufunc

__all__ = ["capsule", "function", "meet_einops", "namespace", "ufunc"]

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def namespace(api_version: str | None) -> Any:
    """`adjoint.array_api`. Raises ValueError for a version of the standard that it does not implement."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(f"array API {api_version!r}: adjoint.array_api implements {VERSIONS[-1]}")
    return array_api


def meet_einops() -> None:
    """Make tensors known to einops, unless it only seems to be there."""
    from adjoint.interop.einops import register

    with suppress(ImportError):
        register()
