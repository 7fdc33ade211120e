"""Deallocation of a graph without recursion, where Python's own way may overflow the stack.

Dropping a node drops its parents, and so on down. CPython defers such chains once they are a few levels deep; only 3.13
lets them grow to thousands of C frames first, more than a thread with a small stack has. There the graph is taken apart
here, one level at a time; elsewhere nothing is done, since a finaliser would cost each node 0.2 µs.
"""

from __future__ import annotations

import sys
from sys import getrefcount
from typing import Any

from adjoint.core.graph.node import Leaf, Node, OutputSlot

NEEDS_ITERATIVE_DEALLOC = sys.version_info[:2] == (3, 13)


def dealloc_iteratively(node: Any) -> None:
    """Release all nodes below `node` that have no other owner, without recursion."""
    below = [_take_parents(node)]
    while below:
        parents = below.pop()
        for parent in parents:
            # besides `parents` only this loop's variable and the argument of getrefcount refer to it
            alone = parent is not None and type(parent) is not Leaf and getrefcount(parent) - parents.count(parent) == 2
            if alone:
                below.append(_take_parents(parent))


def _take_parents(node: Any) -> tuple[Any, ...]:
    """Return the node's parents, and take them from it."""
    if type(node) is OutputSlot:
        owner, node.owner = node.owner, None
        return (owner,)
    if hasattr(node, "context"):  # a Function's context keeps tensors, and these their nodes
        node.context = None
    parents: tuple[Any, ...] = node.parents
    node.parents = ()
    return parents


def with_iterative_dealloc(kind: Any) -> Any:
    """Give a class of nodes a finaliser where this Python needs one."""
    if NEEDS_ITERATIVE_DEALLOC:
        kind.__del__ = dealloc_iteratively
    return kind


for _kind in (Node, OutputSlot):
    with_iterative_dealloc(_kind)
