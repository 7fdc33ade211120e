"""Checkpoints in a graph: what their gradient needs of them is computed again, from what went into them."""

from __future__ import annotations

from typing import Any

from adjoint.compiler.ir.graph import Graph, Value
from adjoint.core.op.spec import Spec


def recompute_checkpoints(graph: Graph) -> Graph:
    """The graph in which the gradient of each checkpoint reads copies of its equations, made right before.

    Only what went into a checkpoint, and what it drew at random, is alive between forward and backward then.
    """
    if not any(_checkpoint_number(v) for v in graph.equations):
        return graph
    out = Graph(graph.name)
    out.inputs = graph.inputs
    again: dict[Value, Value] = {}
    renamed: dict[Any, Any] = {v: v for v in graph.inputs}
    for v in graph.equations:
        number = _checkpoint_number(v)
        if number and v.origin is not None and v.origin.backward:
            for x in v.operands:
                _add_copies(x, number, again, renamed, out)
            inputs = tuple(again.get(i, renamed.get(i, i)) if isinstance(i, Value) else i for i in v.inputs)
        else:
            inputs = tuple(renamed[i] if isinstance(i, Value) else i for i in v.inputs)
        renamed[v] = out.add(v.op, inputs, v.params, Spec(v.shape, v.dtype), v.origin)
    out.outputs = [renamed[v] for v in graph.outputs]
    return out


def _checkpoint_number(v: Value) -> int:
    return v.origin.checkpoint if v.origin is not None else 0


def _is_inside(v: Value, number: int) -> bool:
    """True for an equation of the checkpoint's forward pass that gives the same numbers again."""
    return v.origin is not None and v.origin.checkpoint == number and not v.origin.backward and not v.op.effect


def _add_copies(value: Value, number: int, again: dict[Value, Value], renamed: dict[Any, Any], out: Graph) -> None:
    """Add the copies that lead to `value`, operands first."""
    stack = [value]
    while stack:
        v = stack[-1]
        if v in again or v.op is None or not _is_inside(v, number):
            stack.pop()
            continue
        missing = [x for x in v.operands if x.op is not None and x not in again and _is_inside(x, number)]
        if missing:
            stack.extend(missing)
            continue
        inputs = tuple(again.get(i, renamed.get(i, i)) if isinstance(i, Value) else i for i in v.inputs)
        origin = v.origin._replace(backward=True, again=True) if v.origin is not None else None
        again[v] = out.add(v.op, inputs, v.params, Spec(v.shape, v.dtype), origin)
        stack.pop()
