"""Documents of the viewer as JSON."""

from adjoint.core.graph.source_location import Site
from adjoint.core.viewer.document import (
    DetailTable,
    DrawnEdge,
    DrawnGraph,
    DrawnGroup,
    DrawnNode,
    GraphDocument,
    Walk,
    WalkFrame,
    to_json_value,
)


def test_fields_with_their_defaults_are_left_out() -> None:
    assert to_json_value(DrawnNode("a", "mul"), {}) == {"key": "a", "label": "mul"}
    assert to_json_value(DrawnEdge("a", "b", nbytes=8), {}) == {"source": "a", "target": "b", "nbytes": 8}


def test_sites_are_numbers_of_files_and_lines() -> None:
    node = DrawnNode("a", "mul", sites=(Site("x.py", 3, "f"), Site("y.py", 4, "g")))
    assert to_json_value(node, {"x.py": 0, "y.py": 1})["sites"] == [[0, 3], [1, 4]]


def test_a_document_is_made_of_lists_dictionaries_texts_and_numbers() -> None:
    table = DetailTable("saved", ("name", "bytes"), (("x", "8"),), right=(1,))
    frame = WalkFrame("a", "mul", states={"a": "done"}, amounts={"saved bytes": 8})
    walk = Walk("backward", (frame,), is_backward=True)
    graph = DrawnGraph("g", (DrawnNode("a", "mul", group="m", tables=(table,)),), (DrawnGroup("m", "fc"),), walk=walk)
    shown = to_json_value(GraphDocument("t", (graph,)), {})
    assert shown["graphs"][0]["nodes"][0]["tables"] == [
        {"title": "saved", "head": ["name", "bytes"], "rows": [["x", "8"]], "right": [1]}
    ]
    assert shown["graphs"][0]["walk"]["frames"][0] == {
        "node": "a", "title": "mul", "states": {"a": "done"}, "amounts": {"saved bytes": 8},
    }  # fmt: skip
