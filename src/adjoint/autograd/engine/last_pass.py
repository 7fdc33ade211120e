"""The backward pass that ended last: when, and from where it started."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from adjoint.core.graph.node import Leaf, OutputSlot, next_sequence_nr


class LastPass:
    """`order` is its time in the order of nodes, -1 before the first; the nodes it started from are held weakly.

    `limited`: it was asked for the gradients of certain tensors alone.
    """

    __slots__ = ("limited", "order", "roots")

    def __init__(self) -> None:
        self.order = -1
        self.roots: list[weakref.ref[Any]] = []
        self.limited = False

    def note(self, roots: Iterable[tuple[Any, Any]], limited: bool) -> None:
        """A pass from these roots is over."""
        self.order = next_sequence_nr()
        self.roots = [weakref.ref(node) for node, _ in roots]
        self.limited = limited


last_pass = LastPass()


def owning_node(node: Any) -> Any:
    """The node that has the line: of one of several outputs, the one that made them."""
    return node.owner if type(node) is OutputSlot else node


def describe_node(node: Any) -> str:
    """A node, and the user's line that recorded it."""
    node = owning_node(node)
    site = None if type(node) is Leaf else getattr(node, "site", None)
    return str(node.name()) if site is None else f"{node.name()}, recorded at {site}"
