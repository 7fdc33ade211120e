"""Pytrees: tuples, lists, dicts, named tuples and dataclasses of leaves. Source: JAX's pytrees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from adjoint.core.typing import Function


class Structure(NamedTuple):
    """The structure of a tree: its kind, its keys, and the structures inside. A leaf has kind None."""

    kind: Any
    keys: tuple[Any, ...]
    parts: tuple[Structure, ...]

    def __repr__(self) -> str:
        """As the container prints, with `*` for each leaf."""
        if self.kind is None:
            return "*"
        if issubclass(self.kind, dict):
            pairs = zip(self.keys, self.parts, strict=True)
            return "{" + ", ".join(f"{key!r}: {part!r}" for key, part in pairs) + "}"
        inside = ", ".join(map(repr, self.parts))
        if self.kind is tuple:
            return f"({inside},)" if len(self.parts) == 1 else f"({inside})"
        return f"[{inside}]" if self.kind is list else f"{self.kind.__name__}({inside})"


LEAF = Structure(None, (), ())


def flatten(value: object) -> tuple[list[Any], Structure]:
    """Return the leaves from left to right, and the structure of the tree."""
    leaves: list[Any] = []
    return leaves, _walk(value, leaves)


def _walk(value: Any, leaves: list[object]) -> Structure:
    kind = type(value)
    if isinstance(value, dict):
        return Structure(kind, tuple(value), tuple(_walk(v, leaves) for v in value.values()))
    if kind in (tuple, list) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return Structure(kind, (len(value),), tuple(_walk(v, leaves) for v in value))
    if hasattr(kind, "__dataclass_fields__") and not isinstance(value, type):
        from dataclasses import fields  # whoever has made the class has imported them

        names = tuple(each.name for each in fields(value))
        return Structure(kind, names, tuple(_walk(getattr(value, n), leaves) for n in names))
    if hasattr(kind, "rebuild_tree") and hasattr(kind, "tree_part"):
        return Structure(kind, (), (_walk(value.tree_part(), leaves),))
    leaves.append(value)
    return LEAF


def unflatten(structure: Structure, leaves: Iterator[object]) -> Any:
    """Rebuild a tree around the next leaves of an iterator."""
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
    if hasattr(kind, "rebuild_tree"):
        return kind.rebuild_tree(*parts)
    made = object.__new__(kind)  # not as its `__init__` would: some fields may not be arguments, or may be made there
    for name, part in zip(structure.keys, parts, strict=True):
        object.__setattr__(made, name, part)
    return made


def leaf_count(structure: Structure) -> int:
    """Return the number of leaves of a tree of this structure."""
    return 1 if structure.kind is None else sum(map(leaf_count, structure.parts))


def broadcast_prefix(value: object, structure: Structure) -> list[Any] | None:
    """Return an entry for each leaf of a tree from a prefix of its structure, whose leaves stand for subtrees.

    None if the two do not match.
    """
    leaves, given = flatten(value)
    found: list[Any] = []
    return found if _broadcast_prefix(given, iter(leaves), structure, found) else None


def _broadcast_prefix(given: Structure, leaves: Iterator[object], structure: Structure, found: list[object]) -> bool:
    if given.kind is None:
        found.extend([next(leaves)] * leaf_count(structure))
        return True
    if (given.kind, given.keys) != (structure.kind, structure.keys):
        return False
    return all(_broadcast_prefix(a, leaves, b, found) for a, b in zip(given.parts, structure.parts, strict=True))


def tree_map(function: Function, value: object) -> Any:
    """Apply `function` to each leaf of a tree; return the tree of results."""
    leaves, structure = flatten(value)
    return unflatten(structure, map(function, leaves))
