"""Capabilities of this implementation of the standard: `__array_namespace_info__`."""

from __future__ import annotations

from typing import Any

from adjoint.core.dtype.device import CPU, device
from adjoint.core.dtype.dtype import complex64, complex128, default, dtype, float64, int64
from adjoint.interop.array_api.dtypes import KINDS

MAX_DIMENSIONS = 64  # NumPy's


class __array_namespace_info__:
    """Types, devices and capabilities."""

    def capabilities(self) -> dict[str, Any]:
        """Return which optional parts of the standard are implemented."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": MAX_DIMENSIONS}

    def default_device(self) -> device:
        """Return the CPU."""
        return CPU

    def default_dtypes(self, *, device: object = None) -> dict[str, dtype]:
        """Return the types that Python numbers get."""
        complex_type = complex128 if default.floating is float64 else complex64
        return {
            "real floating": default.floating,
            "complex floating": complex_type,
            "integral": int64,
            "indexing": int64,
        }

    def devices(self) -> list[device]:
        """Return all devices: the CPU."""
        return [CPU]

    def dtypes(self, *, device: object = None, kind: tuple[str, ...] | str | None = None) -> dict[str, dtype]:
        """Return the types by name, all or those of one or several categories. Raises ValueError for no category."""
        names = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for name in names:
            if name not in KINDS:
                raise ValueError(f"dtypes: {name!r} is no category; the categories are {', '.join(KINDS)}")
        return {kind.name: kind for name in names for kind in KINDS[name]}
