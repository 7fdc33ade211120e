"""Checks of a graph: what its nodes name exists, and is computed before it is used."""

from __future__ import annotations

import warnings
from collections.abc import Container

from adjoint.compat.fx.immutable_collections import Argument
from adjoint.compat.fx.node import Node
from adjoint.nn.module.module import Module

_CURES = {
    "get_attr": (
        "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
        "GraphModule.add_submodule to add the necessary submodule, GraphModule.add_parameter to add the necessary "
        "Parameter, or nn.Module.register_buffer to add the necessary buffer"
    ),
    "call_module": (
        "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! Call "
        "GraphModule.add_submodule to add the necessary submodule"
    ),
}


def warn_of_missing_target(owner: Argument, op: str, target: str) -> None:
    """Warn if the owning module has nothing of this name."""
    value = owner
    for name in target.split("."):
        value = getattr(value, name, None)
    if value is None:
        warnings.warn(_CURES[op], stacklevel=3)


def check_target(owner: Argument, node: Node) -> None:
    """Raise RuntimeError if a node names what its owning module does not have, or calls what is no module."""
    value = owner
    names = node.target.split(".")
    for i, name in enumerate(names):
        value, above = getattr(value, name, None), ".".join(names[:i])
        if value is None:
            raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {name} of {above}")
        if node.op == "call_module" and not isinstance(value, Module):
            raise RuntimeError(f"Node {node} target {node.target} {name} of {above} does not reference an nn.Module")


def check_argument(value: Node, user: Node, computed: Container[Node]) -> None:
    """Raise RuntimeError if a node uses a value of another graph, or one that is computed later."""
    if value.graph is not user.graph:
        raise RuntimeError(
            f"Argument '{value}' of Node '{user}' does not belong to this Graph, but was used as an argument! If you "
            "are copying nodes from another graph, make sure to use ``arg_transform`` on node_copy() to remap values\n"
            f"{user.graph}"
        )
    if value not in computed:
        raise RuntimeError(
            f"Argument '{value}' of Node '{user}' was used before it has been defined! Please check that Nodes in the "
            f"graph are topologically ordered\n{user.graph}"
        )
