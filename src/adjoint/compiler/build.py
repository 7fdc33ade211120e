"""From a traced graph to a program: rewrite, lay out, fuse, lower, bind."""

from __future__ import annotations

from typing import Any

from adjoint.compiler import tree
from adjoint.compiler.fuse import Fusion
from adjoint.compiler.graph import Graph
from adjoint.compiler.kernels.nest import lower
from adjoint.compiler.layout import lay_out
from adjoint.compiler.llvm.target import host
from adjoint.compiler.outcome import Outcome
from adjoint.compiler.program import Program
from adjoint.compiler.rewrite import rewrite


def build(graph: Graph, outcome: Outcome, lost: Any) -> Program:
    """The program of a graph whose outputs are the outcome's."""
    for change in (rewrite, lay_out):
        graph = change(graph)
        outcome.follow(graph.outputs)
    graph.verify()
    fusion = Fusion(graph)
    target = host()
    kernels = {group: lower(group, fusion, target) for group in fusion.order if not group.call}
    return Program(graph, fusion, kernels, outcome, lost)


class Entry:
    """A program, and how a call's return value is put together from its results.

    `direct`: the arguments are distinct tensors by position, so that `run` can be called with them as they come.
    """

    __slots__ = ("count", "direct", "places", "program", "run", "structure")

    def __init__(self, program: Program, structure: tree.Structure, places: list[Any], direct: bool) -> None:
        self.program = program
        self.run = program.run
        self.count = program.outcome.arguments
        self.structure = structure
        self.places = places
        self.direct = direct

    def rebuild(self, results: tuple[Any, ...]) -> Any:
        """The step's return value around the computed tensors."""
        leaves = [results[place] if type(place) is int else place[0] for place in self.places]
        if self.structure.kind is None:
            return leaves[0]
        return tree.unflatten(self.structure, iter(leaves))
