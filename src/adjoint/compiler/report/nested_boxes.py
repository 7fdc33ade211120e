"""Boxes within boxes: the parts of a step, its modules, and runs of what is left, so that no box has too much in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2s
from typing import NamedTuple

from adjoint.compiler.ir.graph import Graph, Value
from adjoint.core.viewer.document import DrawnGroup

FORWARD, BACKWARD, UPDATE = "forward", "backward", "update"  # the parts of a step, and the keys of their boxes
MAX_ITEMS = 14  # in a box, beyond which modules get boxes of their own
MAX_RUN = 24  # of items of no module, one after another in a box


class BoxedItem(NamedTuple):
    """A node or a box, by its key, and the modules that it belongs to, the outermost first."""

    key: str
    path: tuple[str, ...]


class BoxNesting:
    """Boxes made so far, and the box of each item."""

    def __init__(self) -> None:
        self.groups: list[DrawnGroup] = []
        self.parents: dict[str, str] = {}

    def nest(self, items: Sequence[BoxedItem], parent: str, name: str = "") -> None:
        """Put items into the box `parent`; if they are many, into boxes in it, for modules and for runs of others.

        `name`: of the module that the items are in.
        """
        heads = Counter(item.path[0] for item in items if item.path)
        if len(items) <= MAX_ITEMS:
            self.parents.update((item.key, parent) for item in items)
        elif len(heads) == 1 and all(item.path for item in items):  # a module that holds all needs no box
            (head,) = heads
            self.nest([item._replace(path=item.path[1:]) for item in items], parent, _join_names(name, head))
        else:
            for head in heads:
                inside = [item._replace(path=item.path[1:]) for item in items if item.path[:1] == (head,)]
                box = self._add_box(parent, _join_names(name, head), "module") if len(inside) > 1 else parent
                self.nest(inside, box, _join_names(name, head))
            self._place_rest([item for item in items if not item.path], parent)

    def _place_rest(self, items: Sequence[BoxedItem], parent: str) -> None:
        """Put items of no module into a box; many, in runs."""
        runs = [items[i : i + MAX_RUN] for i in range(0, len(items), MAX_RUN)]
        for i, run in enumerate(runs):
            box = parent if len(runs) == 1 else self._add_box(parent, f"others, {i + 1} of {len(runs)}", "segment")
            self.parents.update((item.key, box) for item in run)

    def _add_box(self, parent: str, label: str, kind: str) -> str:
        key = "m" + blake2s(f"{parent}/{label}".encode(), digest_size=6).hexdigest()
        self.groups.append(DrawnGroup(key, label, kind, parent))
        return key


def nest_boxes(
    graph: Graph, groups: Sequence[DrawnGroup], box_of: Mapping[Value, str], keys: Mapping[Value, str]
) -> tuple[list[DrawnGroup], dict[Value, str]]:
    """Return the boxes of lines or kernels, within boxes for parts and modules where there are many, and the box of
    each equation: where a box has many equations, that of a module in it.
    """
    parts = find_parts(graph)
    first: dict[str, Value] = {}
    inside: dict[str, list[Value]] = {}
    for value in graph.equations:
        box = box_of.get(value, "")
        first.setdefault(box, value)
        inside.setdefault(box, []).append(value)
    nesting = BoxNesting()
    items: dict[str, list[BoxedItem]] = {}
    for group in groups:
        if group.key in first:
            value = first[group.key]
            items.setdefault(parts[value], []).append(BoxedItem(group.key, _modules_of(value)))
    for value in inside.get("", ()):
        items.setdefault(parts[value], []).append(BoxedItem(keys[value], _modules_of(value)))
    is_parted = sum(map(len, items.values())) > MAX_ITEMS and len(items) > 1
    for part in (FORWARD, BACKWARD, UPDATE) if is_parted else ():
        if part in items:
            nesting.groups.append(DrawnGroup(part, part, "segment"))
            nesting.nest(items[part], part)
    if not is_parted:
        nesting.nest([item for part in items.values() for item in part], "")
    for box, values in inside.items():
        if box:
            nesting.nest([BoxedItem(keys[value], _modules_of(value)) for value in values], box)
    placed = {value: nesting.parents[keys[value]] for value in graph.equations}
    return [*nesting.groups, *(replace(g, parent=nesting.parents.get(g.key, "")) for g in groups)], placed


def find_parts(graph: Graph) -> dict[Value, str]:
    """Return the part of each equation: forward, backward, or update, which depends on backward and is none of it."""
    parts: dict[Value, str] = {}
    for value in graph.equations:
        follows = any(parts.get(operand, FORWARD) != FORWARD for operand in value.operands)
        is_backward = value.origin is not None and value.origin.backward
        parts[value] = BACKWARD if is_backward else UPDATE if follows else FORWARD
    return parts


def _modules_of(value: Value) -> tuple[str, ...]:
    module = "" if value.origin is None else value.origin.module
    return tuple(module.split(".")) if module else ()


def _join_names(around: str, name: str) -> str:
    return f"{around}.{name}" if around else name
