"""Pairs of values and the places they came from, named and printed after the function that gave them."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.core.runtime.package_name import display_name
from adjoint.core.tensor.tensor import Tensor


class Extreme(NamedTuple):
    """Values, and where they were."""

    values: Tensor
    indices: Tensor

    def __repr__(self) -> str:
        return format_fields(self, type(self).__name__)


def format_fields(pair: Any, name: str) -> str:
    """The fields of a named tuple, one a line, behind the name of the function that gave it."""
    fields = ",\n".join(f"{field}={value!r}" for field, value in zip(pair._fields, pair, strict=True))
    return f"{display_name.package}.return_types.{name}(\n{fields})"


class max(Extreme):
    """Of `max` along a dimension."""

    __slots__ = ()


class min(Extreme):
    """Of `min` along a dimension."""

    __slots__ = ()


class sort(Extreme):
    """Of `sort`."""

    __slots__ = ()


class topk(Extreme):
    """Of `topk`."""

    __slots__ = ()


class kthvalue(Extreme):
    """Of `kthvalue`."""

    __slots__ = ()


class median(Extreme):
    """Of `median` along a dimension."""

    __slots__ = ()


class nanmedian(Extreme):
    """Of `nanmedian` along a dimension."""

    __slots__ = ()


class mode(Extreme):
    """Of `mode`."""

    __slots__ = ()


class cummax(Extreme):
    """Of `cummax`."""

    __slots__ = ()


class cummin(Extreme):
    """Of `cummin`."""

    __slots__ = ()
