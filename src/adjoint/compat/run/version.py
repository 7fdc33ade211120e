"""Version of PyTorch that programs read and compare."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

TORCH_VERSION = "2.13.0"  # the PyTorch whose words adjoint speaks


class Version(str):
    """String that is ordered as versions are: "2.13.0" comes after "2.2". It compares with strings and tuples."""

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return _compare_releases(self, other, tuple.__lt__)

    def __le__(self, other: Any) -> bool:
        return _compare_releases(self, other, tuple.__le__)

    def __gt__(self, other: Any) -> bool:
        return _compare_releases(self, other, tuple.__gt__)

    def __ge__(self, other: Any) -> bool:
        return _compare_releases(self, other, tuple.__ge__)

    def __eq__(self, other: object) -> bool:
        if type(other) is tuple:
            return _release_numbers(self) == _release_numbers(other)
        return str.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


VERSION = Version(f"{TORCH_VERSION}+adjoint")


def _compare_releases(version: str, other: Any, order: Callable[[Any, Any], Any]) -> bool:
    """Compare the release numbers; return NotImplemented if `other` is no version."""
    if isinstance(other, str | tuple) or hasattr(other, "release"):
        return order(_release_numbers(version), _release_numbers(other))
    return NotImplemented


def _release_numbers(version: Any) -> tuple[int, ...]:
    """Return (2, 13) for "2.13.0+adjoint", for (2, 13) and for packaging's Version, without trailing zeros."""
    if isinstance(version, str):
        numbers = [int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", version, maxsplit=1)[0])]
    else:
        numbers = [int(part) for part in getattr(version, "release", version)]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
