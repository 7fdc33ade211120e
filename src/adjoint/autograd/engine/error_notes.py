"""An error in a backward pass is told with the node that ran and the user's line that recorded it.

While all goes well nothing is remembered for that: the node is read off the frame of the walk, once an error went
through it.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from adjoint.core.graph.node import OutputSlot

NOTE_PREFIX = "in the backward of "


def add_node_note(error: Exception, walk: CodeType) -> None:
    """Add a note to an error raised while `walk` ran a node, unless a pass within this one has done so."""
    if any(note.startswith(NOTE_PREFIX) for note in getattr(error, "__notes__", ())):
        return
    node = _running_node(error, walk)
    site = getattr(node, "site", None)
    if site is not None and str(site) not in str(error):
        error.add_note(f"{NOTE_PREFIX}{node.name()}, recorded at {site}")


def _running_node(error: Exception, walk: CodeType) -> Any:
    """The node that the innermost walk was at."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is walk:
            found = trace.tb_frame
        trace = trace.tb_next
    node = None if found is None else found.f_locals.get("node")
    return node.owner if type(node) is OutputSlot else node
