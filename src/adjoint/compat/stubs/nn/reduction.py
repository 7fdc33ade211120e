"""How losses are reduced, by PyTorch's numbers and by its names of old: what losses written for PyTorch ask."""

from __future__ import annotations

import warnings

__all__ = ["get_enum", "legacy_get_enum", "legacy_get_string"]
NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """0 for "none", 1 for "mean", 2 for "sum". Raises ValueError for another name."""
    if reduction not in NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2)
    return NUMBERS[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The reduction that two flags ask for, each True where it is None; with a warning."""
    whole, mean = (flag is None or flag for flag in (reduce, size_average))
    name = "none" if not whole else "mean" if mean else "sum"
    if emit_warning:
        told = f"size_average and reduce args will be deprecated, please use reduction='{name}' instead."
        warnings.warn(told, stacklevel=2)
    return name


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """The number of the reduction that two flags ask for."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
