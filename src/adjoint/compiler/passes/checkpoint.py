"""Checkpoints in a graph: what their gradient needs of them is computed again, from what went into them."""

from __future__ import annotations

from adjoint.compiler.ir.graph import Graph, Value


def recompute_checkpoints(graph: Graph) -> Graph:
    """The graph in which the gradient of each checkpoint reads copies of its equations, made right before.

    Only what went into a checkpoint, and what it drew at random, is alive between forward and backward then.
    """
    if not any(_checkpoint_number(v) for v in graph.equations):
        return graph
    out = Graph(graph.name, graph.sizes)
    out.inputs = graph.inputs
    again: dict[Value, Value] = {}
    renamed: dict[Value, Value] = {v: v for v in graph.inputs}
    for v in graph.equations:
        number = _checkpoint_number(v)
        if number and v.origin is not None and v.origin.backward:
            for x in v.operands:
                _add_copies(x, number, again, renamed, out)
            renamed[v] = out.add_like(v, lambda x: again[x] if x in again else renamed[x])
        else:
            renamed[v] = out.add_like(v, renamed.__getitem__)
    out.outputs = [renamed[v] for v in graph.outputs]
    return out


def _checkpoint_number(v: Value) -> int:
    return v.origin.checkpoint if v.origin is not None else 0


def _is_inside(v: Value, number: int) -> bool:
    """True for an equation of the checkpoint's forward pass that gives the same numbers again."""
    return v.origin is not None and v.origin.checkpoint == number and not v.origin.backward and not v.op.effect


def _add_copies(value: Value, number: int, again: dict[Value, Value], renamed: dict[Value, Value], out: Graph) -> None:
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
        origin = v.origin and v.origin._replace(backward=True, rematerialized=True)
        again[v] = out.add_like(v, lambda x: again[x] if x in again else renamed[x], origin)
        stack.pop()
