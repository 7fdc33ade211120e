"""Arguments and results as trees: tuples, lists, dicts and dataclasses of leaves."""

from __future__ import annotations

from typing import Any, NamedTuple


class Structure(NamedTuple):
    """How a container was built: its kind, its keys, and the structures inside; a leaf has kind None."""

    kind: Any
    keys: tuple[Any, ...]
    parts: tuple[Structure, ...]


LEAF = Structure(None, (), ())


def flatten(value: Any) -> tuple[list[Any], Structure]:
    """The leaves from left to right, and what held them."""
    leaves: list[Any] = []
    return leaves, _walk(value, leaves)


def _walk(value: Any, leaves: list[Any]) -> Structure:
    kind = type(value)
    if isinstance(value, dict):
        return Structure(kind, tuple(value), tuple(_walk(v, leaves) for v in value.values()))
    if kind in (tuple, list) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return Structure(kind, (len(value),), tuple(_walk(v, leaves) for v in value))
    if hasattr(kind, "__dataclass_fields__") and not isinstance(value, type):
        names = tuple(kind.__dataclass_fields__)
        return Structure(kind, names, tuple(_walk(getattr(value, n), leaves) for n in names))
    leaves.append(value)
    return LEAF


def unflatten(structure: Structure, leaves: Any) -> Any:
    """The container again, around the next leaves of an iterator."""
    kind = structure.kind
    if kind is None:
        return next(leaves)
    parts = [unflatten(part, leaves) for part in structure.parts]
    if issubclass(kind, dict):
        return kind(zip(structure.keys, parts, strict=True))
    if kind in (tuple, list):
        return kind(parts)
    if hasattr(kind, "_fields"):
        return kind(*parts)
    return kind(**dict(zip(structure.keys, parts, strict=True)))
