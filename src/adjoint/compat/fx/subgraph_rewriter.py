"""Replacement of parts of a graph that look like a pattern."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from adjoint.compat.fx.graph import Graph
from adjoint.compat.fx.graph_module import GraphModule
from adjoint.compat.fx.immutable_collections import Argument, iterate_leaves
from adjoint.compat.fx.node import Node
from adjoint.compat.fx.symbolic_trace import symbolic_trace
from adjoint.core.typing import Function
from adjoint.nn.module.module import Module

__all__ = ["Match", "replace_pattern"]

Pattern = Function | GraphModule | Graph


class Match(NamedTuple):
    """Part of a graph that looks like a pattern: the pattern's last node, and what each of its nodes stands for."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class _Matcher:
    """Comparison of one place in a graph with a pattern."""

    owner: Argument
    pattern_owner: Argument
    pairs: dict[Node, Argument] = field(default_factory=dict)

    def matches(self, pattern: Argument, value: Argument) -> bool:
        """Return whether a value looks like one of the pattern; keep which node stands for which."""
        if not isinstance(pattern, Node):
            return self.matches_constant(pattern, value)
        if pattern in self.pairs:
            return self.pairs[pattern] is value
        if pattern.op == "placeholder":
            self.pairs[pattern] = value
            return True
        if not isinstance(value, Node) or pattern.op != value.op or value in self.pairs.values():
            return False
        self.pairs[pattern] = value
        if pattern.op == "call_module" and not isinstance(
            self.owner.get_submodule(value.target), type(self.pattern_owner.get_submodule(pattern.target))
        ):
            return False
        if pattern.op in {"call_function", "call_method"} and pattern.target != value.target:
            return False
        return self.matches_constant(pattern.args, value.args) and self.matches_constant(pattern.kwargs, value.kwargs)

    def matches_constant(self, pattern: Argument, value: Argument) -> bool:
        """Return whether what is no node, or has nodes inside, is alike."""
        if isinstance(pattern, (list, tuple)) and isinstance(value, (list, tuple)):
            return len(pattern) == len(value) and all(map(self.matches, pattern, value))
        if isinstance(pattern, dict) and isinstance(value, dict):
            return pattern.keys() == value.keys() and all(self.matches(pattern[key], value[key]) for key in pattern)
        if isinstance(pattern, slice) and isinstance(value, slice):
            ends = ((pattern.start, value.start), (pattern.stop, value.stop), (pattern.step, value.step))
            return all(self.matches(*pair) for pair in ends)
        return type(pattern) is type(value) and bool(pattern == value)


def replace_pattern(gm: GraphModule, pattern: Pattern, replacement: Pattern | Module) -> list[Match]:
    """Replace each part of a graph that looks like `pattern` by `replacement`; return what was replaced.

    Parameters of both stand for any value. A part is left alone if something else uses a value inside of it.

    Example:
        >>> gm = ad.fx.symbolic_trace(lambda x: ad.relu(x) + 1)
        >>> _ = ad.fx.replace_pattern(gm, lambda x: ad.relu(x), lambda x: ad.tanh(x))
        >>> print(gm.code.strip())
        def forward(self, x):
            tanh = adjoint.tanh(x);  x = None
            add = tanh + 1;  tanh = None
            return add
    """
    sought, by = _graph_of(pattern), _graph_of(replacement)
    anchors = _results(sought)
    made: list[Match] = []
    renewed: dict[Node, Node] = {}
    erased: set[Node] = set()
    for start in list(gm.graph.nodes):
        matcher = _Matcher(gm, sought.owning_module)
        if start in erased or not anchors or not matcher.matches(anchors[0], start):
            continue
        if not all(each in matcher.pairs for each in anchors) or not is_apart(matcher, anchors, erased):
            continue
        pairs = {
            key: renewed.get(value, value) if isinstance(value, Node) else value for key, value in matcher.pairs.items()
        }
        _replace(gm.graph, sought, by, pairs, renewed)
        erased.update(value for key, value in pairs.items() if key.op != "placeholder")
        made.append(Match(anchors[0], pairs))
    if isinstance(replacement, Module):
        _bring_attributes(gm, replacement, by)
    gm.recompile()
    return made


def _graph_of(pattern: Argument) -> Graph:
    if isinstance(pattern, Graph):
        return pattern
    graph: Graph = pattern.graph if isinstance(pattern, GraphModule) else symbolic_trace(pattern).graph
    return graph


def _results(pattern: Graph) -> list[Node]:
    """Return the nodes that a pattern returns."""
    leaves = iterate_leaves(pattern.output_node().args)
    return [node for node in leaves if isinstance(node, Node) and node.op != "placeholder"]


def is_apart(matcher: _Matcher, anchors: list[Node], erased: set[Node]) -> bool:
    """Return whether nothing else uses the values inside of a match, and no earlier match has its nodes."""
    inside = {value for key, value in matcher.pairs.items() if key.op != "placeholder"}
    results = {matcher.pairs[each] for each in anchors}
    return inside.isdisjoint(erased) and all(inside.issuperset(value.users) for value in inside - results)


def _replace(graph: Graph, sought: Graph, by: Graph, pairs: dict[Node, Argument], renewed: dict[Node, Node]) -> None:
    """Put a copy of `by` in the place of one match."""
    inputs = [node for node in sought.nodes if node.op == "placeholder"]
    results = _results(sought)
    users = {user for each in results for user in pairs[each].users}
    place = next((node for node in graph.nodes if node in users), None) or pairs[results[-1]].next
    parameters = (node for node in by.nodes if node.op == "placeholder")
    values: dict[Node, Argument] = {new: pairs.get(old) for new, old in zip(parameters, inputs, strict=True)}
    with graph.inserting_before(place):
        copied = graph.graph_copy(by, values)
    for old, new in zip(results, copied if isinstance(copied, (list, tuple)) else [copied], strict=True):
        pairs[old].replace_all_uses_with(new)
        renewed[pairs[old]] = new
    for node in reversed(sought.nodes):
        if node.op not in {"placeholder", "output"}:
            graph.erase_node(pairs[node])


def _bring_attributes(gm: GraphModule, replacement: Module, by: Graph) -> None:
    """Give a module what the nodes of the replacement name."""
    for node in by.nodes:
        if node.op in {"call_module", "get_attr"} and not has_path(gm, node.target):
            *path, name = node.target.split(".")
            value: Argument = replacement
            for part in (*path, name):
                value = getattr(value, part)
            if isinstance(value, Module):
                gm.add_submodule(node.target, value)
            else:
                setattr(gm.get_submodule(".".join(path)), name, value)


def has_path(module: Argument, target: str) -> bool:
    for name in target.split("."):
        module = getattr(module, name, None)
    return module is not None
