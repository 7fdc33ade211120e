"""Named tuples of values and indices, printed under the name of the function that returned them."""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.core.runtime.package_name import display_name
from adjoint.core.tensor.tensor import Tensor


class Extreme(NamedTuple):
    """Values and their indices."""

    values: Tensor
    indices: Tensor

    def __repr__(self) -> str:
        return format_fields(self, type(self).__name__)


def format_fields(pair: Any, name: str) -> str:
    """Format the fields of a named tuple, one a line, after the name of the function that returned it."""
    fields = ",\n".join(f"{field}={value!r}" for field, value in zip(pair._fields, pair, strict=True))
    return f"{display_name.package}.return_types.{name}(\n{fields})"


class max(Extreme):
    """Result of `max` along a dimension."""

    __slots__ = ()


class min(Extreme):
    """Result of `min` along a dimension."""

    __slots__ = ()


class sort(Extreme):
    """Result of `sort`."""

    __slots__ = ()


class topk(Extreme):
    """Result of `topk`."""

    __slots__ = ()


class kthvalue(Extreme):
    """Result of `kthvalue`."""

    __slots__ = ()


class median(Extreme):
    """Result of `median` along a dimension."""

    __slots__ = ()


class nanmedian(Extreme):
    """Result of `nanmedian` along a dimension."""

    __slots__ = ()


class mode(Extreme):
    """Result of `mode`."""

    __slots__ = ()


class cummax(Extreme):
    """Result of `cummax`."""

    __slots__ = ()


class cummin(Extreme):
    """Result of `cummin`."""

    __slots__ = ()
