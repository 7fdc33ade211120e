"""Notes on passes: the node at which one raised, and the pass that ended last.

While all goes well nothing is remembered for errors. Once an error went through the frame of the walk, the node is read
off that frame.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import CodeType

from adjoint.core.graph.node import GraphNode, Leaf, OutputSlot, Vertex, next_sequence_nr

NOTE_PREFIX = "in the backward of "


def add_node_note(error: Exception, walk: CodeType) -> None:
    """Add a note to an error raised while `walk` ran a node, unless a pass within this one has done so."""
    if any(note.startswith(NOTE_PREFIX) for note in getattr(error, "__notes__", ())):
        return
    node = _running_node(error, walk)
    site = getattr(node, "site", None)
    if node is not None and site is not None and str(site) not in str(error):
        error.add_note(f"{NOTE_PREFIX}{node.name()}, recorded at {site}")


def _running_node(error: Exception, walk: CodeType) -> GraphNode | Leaf | None:
    """Return the node that the innermost walk was at."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is walk:
            found = trace.tb_frame
        trace = trace.tb_next
    node = None if found is None else found.f_locals["node"]
    return None if node is None else owning_node(node)


class LastPass:
    """`order` is its time in the order of nodes, -1 before the first; the nodes it started from are held weakly.

    `limited`: it was asked for the gradients of certain tensors alone.
    """

    __slots__ = ("limited", "order", "roots")

    def __init__(self) -> None:
        self.order = -1
        self.roots: list[weakref.ref[Vertex]] = []
        self.limited = False

    def note(self, roots: Iterable[tuple[Vertex, object]], limited: bool) -> None:
        """Note that a pass from these roots is over."""
        self.order = next_sequence_nr()
        self.roots = [weakref.ref(node) for node, _ in roots]
        self.limited = limited


last_pass = LastPass()


def owning_node(node: Vertex) -> GraphNode | Leaf:
    """Return the node that knows the line; for one of several outputs the node that made them."""
    return node.owner if type(node) is OutputSlot else node


def describe_node(node: Vertex) -> str:
    """Return a node, and the user's line that recorded it."""
    node = owning_node(node)
    site = None if type(node) is Leaf else getattr(node, "site", None)
    return str(node.name()) if site is None else f"{node.name()}, recorded at {site}"
