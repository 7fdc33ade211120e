"""Arguments taken out of their containers, and results put into theirs, by code written for one structure.

`pytree` walks any tree; what a compiled step is called with has the same structure each time.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

from adjoint.core.graph.source_location import PACKAGE
from adjoint.core.runtime import pytree
from adjoint.core.runtime.pytree import Structure
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand

Unpack = Callable[[tuple[object, ...], dict[str, object]], tuple[Operand, ...] | None]


def write_unpacker(args: tuple[object, ...], kwargs: dict[str, object], kinds: Sequence[object]) -> Unpack | None:
    """A function of a call's arguments: the leaves that are given to the program; None where others differ.

    `kinds`: of the leaves of the traced call, in its signature. No function for a leaf that only its identity tells.
    """
    leaves, structure = pytree.flatten((args, kwargs))
    is_given = [isinstance(x, Tensor) or kind in (int, float) for x, kind in zip(leaves, kinds, strict=True)]
    writer = _UnpackerCodegen(leaves, is_given)
    for name, part in zip(("args", "kwargs"), structure.parts, strict=True):
        writer.visit(name, part)
    if writer.has_unhashable_leaf:
        return None
    given = "".join(f"{name}, " for name in writer.given)
    source = "\n    ".join(["def unpack(args, kwargs):", *writer.lines, f"return ({given})"])
    exec(compile(source, f"{PACKAGE}<arguments>", "exec"), writer.names)
    unpack: Unpack = writer.names.pop("unpack")
    return unpack


class _UnpackerCodegen:
    """Writes the lines that take a tree apart, and compare it with the one of the trace."""

    def __init__(self, leaves: Sequence[object], is_given: Sequence[bool]) -> None:
        self._leaves = iter(zip(leaves, is_given, strict=True))
        self.lines: list[str] = []
        self.given: list[str] = []
        self.names: dict[str, Operand] = {}
        self.has_unhashable_leaf = False
        self._count = 0

    def visit(self, name: str, structure: Structure) -> None:
        """Write the lines for the part of the tree that is called `name`."""
        kind = structure.kind
        if kind is None:
            self._visit_leaf(name)
            return
        test = f"type({name}) is not {self._name(kind)}"
        inside = name
        if issubclass(kind, dict):
            test += f" or tuple({name}) != {self._name(structure.keys)}"
            inside = f"{name}.values()"
        elif kind in (tuple, list):
            test += f" or len({name}) != {len(structure.parts)}"
        elif hasattr(kind, "__dataclass_fields__"):
            inside = "".join(f"{name}.{field}, " for field in structure.keys)
        elif not hasattr(kind, "_fields"):
            inside = f"{name}.tree_part(),"
        self.lines.append(f"if {test}: return None")
        parts = [f"{name}_{i}" for i in range(len(structure.parts))]
        if parts:
            self.lines.append(f"{''.join(f'{part}, ' for part in parts)}= {inside}")
        for part, below in zip(parts, structure.parts, strict=True):
            self.visit(part, below)

    def _visit_leaf(self, name: str) -> None:
        leaf, is_given = next(self._leaves)
        if is_given:
            self.given.append(name)
            return
        try:
            hash(leaf)
        except TypeError:
            self.has_unhashable_leaf = True
        if type(leaf) in (int, str):
            self.lines.append(f"if type({name}) is not {type(leaf).__name__} or {name} != {leaf!r}: return None")
        else:
            self.lines.append(f"if {name} is not {self._name(leaf)}: return None")

    def _name(self, thing: Operand) -> str:
        self._count += 1
        self.names[f"o{self._count}"] = thing
        return f"o{self._count}"


def write_rebuilder(structure: Structure) -> Callable[[Sequence[Operand]], Operand]:
    """A function of a program's leaves: the tree of this structure."""
    if structure.kind is None:
        return itemgetter(0)
    names: dict[str, Operand] = {}
    code = _write_tree(structure, names, itertools.count())
    rebuild: Callable[[Sequence[Operand]], Operand] = eval(f"lambda leaves: {code}", names)
    return rebuild


def _write_tree(part: Structure, names: dict[str, Operand], places: Iterator[int]) -> str:
    """The expression of a tree of `leaves`, from the next of `places` on; `names` gets the objects that it names."""
    kind = part.kind
    if kind is None:
        return f"leaves[{next(places)}]"
    parts = [_write_tree(below, names, places) for below in part.parts]
    if kind is dict:
        names[key := f"k{len(names)}"] = part.keys
        return "{" + ", ".join(f"{key}[{i}]: {below}" for i, below in enumerate(parts)) + "}"
    inside = "".join(f"{below}, " for below in parts)
    if kind in (tuple, list):
        return f"({inside})" if kind is tuple else f"[{inside}]"
    made = f"made{len(names)}"
    shell = Structure(kind, part.keys, (pytree.LEAF,) * len(parts))
    names[made] = lambda below: pytree.unflatten(shell, iter(below))
    return f"{made}(({inside}))"
