"""Deallocation of a graph without recursion, where Python's own way may overflow the stack.

Dropping a node drops its parents, and so on down. CPython defers such chains once they are a few levels deep; only 3.13
lets them grow to thousands of C frames first, more than a thread with a small stack has. There the graph is taken apart
here, one level at a time; elsewhere nothing is done, since a finaliser would cost each node 0.2 µs.
"""

from __future__ import annotations

import sys
from sys import getrefcount
from typing import Any, TypeVar

from adjoint.core.graph.node import GraphNode, Node, OutputSlot, Parents

Kind = TypeVar("Kind", bound=type)
NEEDS_ITERATIVE_DEALLOC = sys.version_info[:2] == (3, 13)


def dealloc_iteratively(node: GraphNode | OutputSlot) -> None:
    """Release all nodes below `node` that have no other owner, without recursion."""
    below = [_take_parents(node)]
    while below:
        parents = below.pop()
        for parent in parents:
            # what is no node has none, and leaves and used up histories have none of their own
            has_parents = bool(getattr(parent, "parents", ()))
            # besides `parents` only this loop's variable and the argument of getrefcount refer to it
            if has_parents and getrefcount(parent) - parents.count(parent) == 2:
                below.append(_take_parents(parent))


def _take_parents(node: Any) -> Parents:
    """Return the node's parents, and take them from it."""
    kind = type(node)
    if kind is OutputSlot:
        parents, node.owner = node.parents, None
        return parents
    if hasattr(node, "context"):  # a Function's context keeps tensors, and these their nodes
        node.context = None
    parents, node.parents = node.parents, ()
    return parents


def with_iterative_dealloc(kind: Kind) -> Kind:
    """Give a class of nodes a finaliser where this Python needs one."""
    if NEEDS_ITERATIVE_DEALLOC:
        setattr(kind, "__del__", dealloc_iteratively)  # noqa: B010  mypy would take a plain assignment for a mistake
    return kind


for _kind in (Node, OutputSlot):
    with_iterative_dealloc(_kind)
