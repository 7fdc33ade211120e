"""Graphs of the compiler as the viewer draws them: equations as nodes, in boxes of their lines or of their kernels."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2s

from adjoint.compiler.ir.graph import Argument, Constant, Graph, StateInput, Value, ValueOrigin
from adjoint.compiler.passes.cost_model import flops
from adjoint.compiler.passes.materialize import is_view_or_generated
from adjoint.compiler.report.nested_boxes import nest_boxes
from adjoint.core.graph.source_location import Site
from adjoint.core.op.spec import describe
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.viewer.document import DrawnEdge, DrawnGraph, DrawnGroup, DrawnNode, Rows
from adjoint.core.viewer.op_kinds import kind_of_op

CALL_FAMILIES = {"call", "check", "collective"}
MAX_STATES_APART = 6  # beyond which the tensors that a step captures are in a box
STATES = "state"  # the key of that box
MAX_NODES_TO_OPEN = 48  # up to which all boxes are open at first
MAX_TEXT_LENGTH = 34  # in a box


def value_keys(graph: Graph) -> dict[Value, str]:
    """Return a key for each value: in the graphs before and after a pass, what is alike has the same.

    Values are alike that are made by one op for one line in one shape, in their order.
    """
    counts: Counter[object] = Counter()
    keys = {}
    for value in (*graph.inputs, *graph.equations):
        what = value.op.name if value.op is not None else _name_input(value)
        facts = what, str(value.origin), value.shape, str(value.dtype)
        counts[facts] += 1
        keys[value] = "n" + blake2s(repr((facts, counts[facts])).encode(), digest_size=6).hexdigest()
    return keys


def draw_graph(
    graph: Graph,
    title: str,
    groups: Sequence[DrawnGroup] | None = None,
    box_of: Mapping[Value, str] | None = None,
    rows_of: Mapping[Value, Rows] | None = None,
    note: str = "",
) -> DrawnGraph:
    """Return a graph as the viewer draws it, its equations in these boxes; by default, in one for each line.

    `rows_of`: what else is told of values; `note`: of the graph.
    """
    keys, names, outputs = value_keys(graph), graph.names(), set(graph.outputs)
    is_open = len(graph.equations) <= MAX_NODES_TO_OPEN
    if groups is None or box_of is None:
        groups, box_of = _line_boxes(graph, is_open)
    groups, placed = nest_boxes(graph, groups, box_of, keys)
    read = {operand for value in graph.equations for operand in value.operands} | outputs
    inputs = [v for v in graph.inputs if v in read and (v.size > 1 or isinstance(v.source, (Argument, StateInput)))]
    nodes = [_input_node(v, keys[v], names[v]) for v in inputs]
    states = [node for node in nodes if node.kind == "leaf"]
    if len(states) > MAX_STATES_APART:
        box = DrawnGroup(STATES, "state", "module", subtitle=pluralize(len(states), "tensor"))
        groups = [box, *groups]
        nodes = [replace(node, group=STATES) if node.kind == "leaf" else node for node in nodes]
    for v in graph.equations:
        rows = [("equation", graph.describe(v, names)), ("line", "" if v.origin is None else str(v.origin))]
        rows += (rows_of or {}).get(v, ())
        nodes.append(
            DrawnNode(
                keys[v],
                v.op.name,
                "call" if v.op.family in CALL_FAMILIES else kind_of_op(v.op),
                placed[v],
                describe(v),
                sites_of(v.origin),
                ("output",) if v in outputs else (),
                tuple(rows),
                amounts={"flops": count} if (count := flops(v)) else {},
            )
        )
    drawn = set(inputs)
    edges = [
        DrawnEdge(keys[operand], keys[v], describe(operand), operand.nbytes, "view" if is_view(operand) else "")
        for v in graph.equations
        for operand in dict.fromkeys(v.operands)
        if operand.op is not None or operand in drawn
    ]
    summary = ("inputs", f"{len(graph.inputs):,}"), ("equations", f"{len(graph.equations):,}")
    return DrawnGraph(title, tuple(nodes), tuple(groups), tuple(edges), summary, note)


def is_view(value: Value) -> bool:
    """True for an equation that has no memory: a strided view of another, or numbers that a kernel makes."""
    return value.op is not None and is_view_or_generated(value)


def sites_of(origin: ValueOrigin | None) -> tuple[Site, ...]:
    """Return the user's lines of an equation: its own, and those with which it is shared."""
    if origin is None:
        return ()
    return tuple(dict.fromkeys([origin.site, *(each.site for each in origin.merged_origins)]))


def read_line(site: Site) -> str:
    """Return the text of a line, cut to the width of a box."""
    return shorten(linecache.getline(site.file, site.line).strip())


def shorten(text: str) -> str:
    """Return a text, cut to the width of a box."""
    return text if len(text) <= MAX_TEXT_LENGTH else text[: MAX_TEXT_LENGTH - 1] + "…"


def _input_node(value: Value, key: str, name: str) -> DrawnNode:
    kinds = {Argument: "input", StateInput: "leaf", Constant: "constant"}
    label = shorten(_name_input(value))
    return DrawnNode(
        key, label, kinds.get(type(value.source), "input"), subtitle=describe(value), details=(("", name),)
    )


def _name_input(value: Value) -> str:
    source = value.source
    if isinstance(source, Constant):
        return f"{source.array.item():g}" if source.array.size == 1 and source.array.dtype.kind in "fiu" else "constant"
    words = {Argument: "argument", StateInput: "state"}.get(type(source), "")
    name = getattr(source, "name", "") or (f"gradient {source.number}" if hasattr(source, "number") else "")
    return f"{words} {name}".strip()


def _line_boxes(graph: Graph, is_open: bool) -> tuple[list[DrawnGroup], dict[Value, str]]:
    """Return a box for each line, for forward and backward, and the boxes of the equations."""
    boxes: dict[str, DrawnGroup] = {}
    box_of = {}
    for value in graph.equations:
        origin = value.origin
        if origin is None:
            continue
        site, way = origin.site, " · again" if origin.rematerialized else " · backward" if origin.backward else ""
        key = "l" + blake2s(f"{site.file}:{site.line}{way}".encode(), digest_size=6).hexdigest()
        if key not in boxes:
            label = site.describe_briefly() + way
            boxes[key] = DrawnGroup(key, label, "lines", subtitle=read_line(site), sites=(site,), is_open=is_open)
        box_of[value] = key
    return list(boxes.values()), box_of
