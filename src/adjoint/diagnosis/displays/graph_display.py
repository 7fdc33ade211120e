"""The recorded graph in a notebook: a node with what it saved and a tree of those before it; a report of the memory."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from html import escape

from adjoint.autograd.debug.memory_report import NUMBER_COLUMNS, TABLE_COLUMNS, MemoryReport, iter_saved_arrays
from adjoint.core.graph.hooks import HookableNode
from adjoint.core.graph.node import GraphNode, Leaf
from adjoint.core.runtime.html import render_frame, render_table
from adjoint.core.runtime.text_table import format_size, pluralize
from adjoint.diagnosis.source_expressions import shorten

MAX_ROWS = 50  # of a table; its total counts all
MAX_NODES = 200  # of a tree; those before the last are counted
MAX_DEPTH = 40  # of a tree: elements within elements, which browsers lay out one in another
MAX_OPEN_DEPTH = 3  # of the part that is open at first


def render_node(node: HookableNode) -> str:
    """Render a node with those that its gradient goes on to."""
    parts = [f"<p>{_describe(node)}</p>"]
    if isinstance(node, GraphNode):
        rows = [
            [escape(what), escape(str(list(array.shape))), str(array.dtype), format_size(array.nbytes)]
            for what, array in iter_saved_arrays(node)
        ]
        parts.append(render_table(("saved", "shape", "dtype", "bytes"), rows, (3,)) if rows else "")
        parts += _GraphTree().render_parents(node, 0)
    return render_frame("\n".join(filter(None, parts)))


def _describe(node: HookableNode) -> str:
    """Return the name, the type and shape, and the line of a node."""
    parts = [f"<b>{escape(node.name())}</b>"]
    dtype, shape = getattr(node, "dtype", None), getattr(node, "shape", None)
    if dtype is not None and shape is not None:
        parts.append(f"{escape(str(dtype))} {escape(str(list(shape)))}")
    if isinstance(node, GraphNode):
        text = shorten(linecache.getline(node.site.file, node.site.line).strip())
        place = f'<span class="dim">{escape(node.site.describe_briefly())}</span>'
        parts.append(f"{place} <code>{escape(text)}</code>" if text else place)
    elif isinstance(node, Leaf):
        parts.append('<span class="dim">a leaf: the gradient is added to its .grad</span>')
    return " · ".join(parts)


class _GraphTree:
    """The lines of one tree; `seen`: the nodes whose parents are shown already."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.left = MAX_NODES

    def render_parents(self, node: GraphNode, depth: int) -> Iterator[str]:
        """Yield the lines of the nodes that the gradient of a node goes on to."""
        self.seen.add(id(node))
        following = [following for following, _ in node.next_functions if following is not None]
        for i, parent in enumerate(following):
            if self.left <= 0:
                yield f'<div class="dim">… {pluralize(len(following) - i, "node")} and those before not shown</div>'
                return
            self.left -= 1
            title = _describe(parent)
            if not isinstance(parent, GraphNode) or not parent.next_functions:
                yield f"<div>{title}</div>"
            elif id(parent) in self.seen:
                yield f'<div>{title} <span class="dim">(it is above)</span></div>'
            elif depth == MAX_DEPTH:
                yield f'<div>{title} <span class="dim">(more before it)</span></div>'
            else:
                yield f"<details{' open' if depth < MAX_OPEN_DEPTH else ''}><summary>{title}</summary>"
                yield from self.render_parents(parent, depth + 1)
                yield "</details>"


def render_memory_report(report: MemoryReport) -> str:
    """Render the values that a graph keeps, largest first, and their total."""
    rows = report.rows()
    table = render_table(TABLE_COLUMNS, [[escape(cell) for cell in row] for row in rows[:MAX_ROWS]], NUMBER_COLUMNS)
    left = f'<p class="dim">… {len(rows) - MAX_ROWS:,} smaller ones not shown</p>' if len(rows) > MAX_ROWS else ""
    return render_frame(f"<p><b>{escape(report.foot)}</b></p>\n{table if rows else ''}{left}")
