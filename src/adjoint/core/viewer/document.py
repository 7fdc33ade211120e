"""A document of the viewer: graphs with boxes that open, their source lines, and a walk; as typed values and as JSON.

What makes a document knows its subject (an autograd graph, a compiled program); the viewer knows boxes, edges, lines
and states only. `page.render_document(document)` gives the HTML page.

- A graph has nodes, and groups in which they lie: boxes that fold. An edge joins two nodes; where a box is folded, its
  edges end at the box, and edges that join the same two boxes are drawn as one.
- Keys are strings. Those of the nodes and groups of a graph are distinct. A key that several graphs of a document have
  is the same thing for the reader: it stays selected as the slider moves from graph to graph.
- `sites` are the user's lines that made a node. The page holds these lines and those around them. Nodes light up where
  the reader points at a line, and lines where he points at a node or a box.
- `details` are rows (name, text), `tables` larger lists; both are shown of what is selected. `amounts` are numbers that
  a box sums over its nodes: a name that ends in "bytes" is shown as kB, one in "seconds" as µs, others as counts.
- `kind` chooses the colour: "leaf", "input", "constant", "output", "function", "matrix", "activation", "elementwise",
  "reduction", "movement", "normalization", "loss", "random", "call" of nodes; "module", "kernel", "lines", "segment",
  "gradient" of groups. Any other kind is drawn without a colour of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache

from adjoint.core.graph.source_location import Site
from adjoint.core.typing import Operand

Rows = tuple[tuple[str, str], ...]
Amounts = Mapping[str, float]


@dataclass(frozen=True)
class DetailTable:
    """A table about a node or a box; columns numbered in `right` are flush right."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()


@dataclass(frozen=True)
class DrawnNode:
    """A node. `subtitle`: a second line in its box, such as a shape; `badges`: a third one, such as "hook"."""

    key: str
    label: str
    kind: str = ""
    group: str = ""
    subtitle: str = ""
    sites: tuple[Site, ...] = ()
    badges: tuple[str, ...] = ()
    details: Rows = ()
    tables: tuple[DetailTable, ...] = ()
    amounts: Amounts = field(default_factory=dict)


@dataclass(frozen=True)
class DrawnGroup:
    """A box around the nodes and groups that name it; "" as `parent` is the whole graph.

    `is_open`: whether it is open at first. `reason`: why it begins here, or is a box of its own.
    """

    key: str
    label: str
    kind: str = ""
    parent: str = ""
    subtitle: str = ""
    sites: tuple[Site, ...] = ()
    badges: tuple[str, ...] = ()
    details: Rows = ()
    tables: tuple[DetailTable, ...] = ()
    reason: str = ""
    is_open: bool = False


@dataclass(frozen=True)
class DrawnEdge:
    """An arrow. `label`: shape and type of what flows; `nbytes`: its size; `kind`: "view" and "order" are dashed."""

    source: str
    target: str
    label: str = ""
    nbytes: int = 0
    kind: str = ""


@dataclass(frozen=True)
class WalkFrame:
    """A moment of a walk: the node that runs ("" for none), rows of text, and what changes from the frame before.

    `states`: of nodes, "waiting", "ready", "running", "done" or "freed". `notes`: a text that from now on stands at a
    node, "" for none. `amounts`: drawn as curves over the frames.
    """

    node: str
    title: str
    rows: Rows = ()
    states: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    amounts: Amounts = field(default_factory=dict)
    tables: tuple[DetailTable, ...] = ()


@dataclass(frozen=True)
class Walk:
    """Frames that a slider goes through; `is_backward`: from the last nodes to the first, against the arrows."""

    title: str
    frames: tuple[WalkFrame, ...]
    is_backward: bool = False


@dataclass(frozen=True)
class DrawnGraph:
    """A graph. `title` is its name at the slider of graphs; `summary` is shown while nothing is selected."""

    title: str
    nodes: tuple[DrawnNode, ...]
    groups: tuple[DrawnGroup, ...] = ()
    edges: tuple[DrawnEdge, ...] = ()
    summary: Rows = ()
    note: str = ""
    walk: Walk | None = None


@dataclass(frozen=True)
class Pane:
    """HTML beside the graph, in a tab of its own, with the page's colours (`var(--ink)`, `var(--accent)`, …).

    An element with `data-keys="k1 k2"` lights up these nodes and boxes when it is pointed at, and is lit up by them
    (it gets the class `lit`); one with `data-line="file.py:12"` does so with this line, where `file.py` is the file of
    a `Site`. A click selects.
    """

    title: str
    html: str


@dataclass(frozen=True)
class GraphDocument:
    """The contents of a page: a title, one graph or several in an order, and panes beside them.

    `first`: the graph that is shown when the page opens.
    """

    title: str
    graphs: tuple[DrawnGraph, ...]
    panes: tuple[Pane, ...] = ()
    first: int = 0


def to_json_value(value: object, files: Mapping[str, int]) -> Operand:
    """Return a document as lists, dictionaries, texts and numbers; fields that have their defaults are left out.

    A site becomes [number of its file, line].
    """
    if isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Site):
        return [files[value.file], value.line]
    if isinstance(value, (tuple, list)):
        return [to_json_value(one, files) for one in value]
    if isinstance(value, Mapping):
        return {key: to_json_value(one, files) for key, one in value.items()}
    shown = {}
    kind: type = type(value)
    for name, default in _field_defaults(kind):
        found = getattr(value, name)
        if found != default:
            shown[name] = to_json_value(found, files)
    return shown


@cache
def _field_defaults(kind: type) -> list[tuple[str, object]]:
    """Return the fields of a dataclass with their defaults."""
    return [
        (each.name, each.default if each.default_factory is MISSING else each.default_factory())
        for each in fields(kind)
    ]
