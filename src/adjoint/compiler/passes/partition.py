"""The partition of a step whose `backward()` is called outside: its gradient, and the cut between two programs.

The autograd engine walks the traced history, so that hooks and custom Functions take part. The equations that it emits
are the backward half. The forward half saves a value for it if making the value again would cost more than keeping it,
or is impossible.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, NamedTuple

from adjoint.autograd.engine import engine
from adjoint.compiler.ir.graph import Argument, Constant, Graph, IncomingGrad, StateInput, TraceError, Value
from adjoint.compiler.ir.strided_view import is_expanded_input
from adjoint.compiler.passes.cost_model import SAVE_COST_PER_ELEMENT, can_rematerialize, recompute_cost
from adjoint.compiler.trace.tracer import Tracer
from adjoint.core.graph.node import FREED, Leaf
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.tensor.sparse_array import is_sparse
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Shape


class RowGradient(NamedTuple):
    """A sparse gradient, the `number`-th: that of a table of this shape.

    It `has_gaps` where a row may be -1, which stands for none.
    """

    number: int
    shape: Shape
    has_gaps: bool


class JointGradient(NamedTuple):
    """The gradient of a traced step: for each of `leaves` the value in `gradients`, from the `incoming` ones.

    For a sparse one these are the values of its rows; after all others come the rows, of each of `sparse`.
    """

    incoming: list[Value]
    leaves: list[Leaf]
    gradients: list[Value]
    sparse: list[RowGradient]


class TracedBackward(NamedTuple):
    """The gradient of a step and the numbers of the results that it starts from; what those raise that have none."""

    joint_gradient: JointGradient | None
    result_numbers: list[int]
    errors: dict[int, RuntimeError]


class BackwardGraph(NamedTuple):
    """The backward half: its graph, whose n-th input is the n-th of `saved` or, after them, of `incoming`.

    `saved` are values of the forward half: inputs, and what it computes; of inputs that it overwrites, copies.
    `further` are the values that the history of the results is made from besides.
    """

    graph: Graph
    saved: list[Value]
    incoming: list[Value]
    further: list[Value]


def trace_backward(tracer: Tracer, results: list[Tensor], made_leaves: Set[int]) -> TracedBackward:
    """The gradient of those results whose history is still there, and which these are; or why there is none.

    `made_leaves`: the ids of leaves that the step makes and returns or keeps.
    """
    nodes = {i: _reachable_nodes([r.node]) for i, r in enumerate(results) if type(r.node) not in (type(None), Leaf)}
    wanted = [i for i, before in nodes.items() if all(getattr(n, "saved_values", None) is not FREED for n in before)]
    try:
        return TracedBackward(*_trace_gradient(tracer, results, wanted, made_leaves), {})
    except RuntimeError:
        refused = {i: error for i in wanted if (error := _backward_error(tracer, results, i, made_leaves)) is not None}
        if not refused:
            raise
    wanted = [i for i in wanted if i not in refused]
    return TracedBackward(*_trace_gradient(tracer, results, wanted, made_leaves), refused)


def _backward_error(tracer: Tracer, results: list[Tensor], i: int, made_leaves: Set[int]) -> RuntimeError | None:
    """Return the error that `backward()` from one of the results alone would raise."""
    try:
        _trace_gradient(tracer, results, [i], made_leaves)
    except TraceError:
        raise
    except RuntimeError as error:
        return type(error)(*error.args)  # without the frames of the trace
    return None


def _trace_gradient(
    tracer: Tracer, results: list[Tensor], wanted: list[int], made_leaves: Set[int]
) -> tuple[JointGradient | None, list[int]]:
    """The gradient of these results. The graph stays as it was if there is none."""
    nodes = _reachable_nodes([results[i].node for i in wanted])
    known = [(n, tensor) for n in nodes if type(n) is Leaf and (tensor := n.reference()) is not None]
    leaves = [n for n, tensor in known if id(tensor) in made_leaves or not tracer.is_made_here(tensor)]
    if not leaves:
        return None, []
    graph = tracer.graph
    before = len(graph.equations)
    incoming = [tracer.graph.input(results[i].array, IncomingGrad(i)) for i in wanted]
    hooks = [leaf.hooks for leaf in leaves]  # they see what arrives at last, outside
    try:
        for leaf in leaves:
            leaf.hooks = None
        with ModeScope(interpreter=tracer, recording=False):
            seeds: list[Any] = [(results[i].node, wrap(g)) for i, g in zip(wanted, incoming, strict=True)]
            found = engine.run_grad(seeds, retain_graph=True, create_graph=False, targets=leaves)
    except RuntimeError:
        _drop_equations(graph, before, incoming)
        raise
    finally:
        for leaf, held in zip(leaves, hooks, strict=True):
            leaf.hooks = held
    reached = [leaf for leaf in leaves if found.get(leaf) is not None]
    gradients: list[Any] = [found[leaf] for leaf in reached]
    sparse = [(i, g) for i, g in enumerate(gradients) if is_sparse(g)]
    values = [g.entries if is_sparse(g) else g for g in gradients]
    computed = [tracer.adopt(x) for x in (*values, *(g.pattern.indices for _, g in sparse))]
    facts = [RowGradient(i, g.pattern.shape, g.pattern.has_gaps) for i, g in sparse]
    return JointGradient(incoming, reached, computed, facts), wanted


def _drop_equations(graph: Graph, before: int, incoming: list[Value]) -> None:
    """Remove, after so many equations, what would have an effect, and what follows from it; all else is dead anyway."""
    gone = set(incoming)
    for v in graph.equations[before:]:
        if v.op.effect or any(x in gone for x in v.operands):
            gone.add(v)
    graph.equations[before:] = [v for v in graph.equations[before:] if v not in gone]
    graph.inputs[:] = [v for v in graph.inputs if v not in gone]


def _reachable_nodes(nodes: list[Any]) -> list[Any]:
    seen = dict.fromkeys(nodes)
    stack = list(nodes)
    while stack:
        for parent in stack.pop().parents:
            if parent is not None and parent not in seen:
                seen[parent] = None
                stack.append(parent)
    return list(seen)


def partition(
    graph: Graph, incoming: list[Value], gradients: list[Value], written: Set[Value], sources: Sequence[Value]
) -> BackwardGraph:
    """The backward half of a graph that computes both: what depends on the incoming gradients, or leads only there.

    `written`: inputs whose memory the forward half overwrites, so that nothing is made from them again. `sources`: what
    the history of the results is made from.
    """
    late = set(incoming)
    for v in graph.equations:
        if any(x in late for x in v.operands) or (v.origin is not None and v.origin.rematerialized):
            late.add(v)
    needed: list[Value] = []  # what the backward half reads of the forward one
    seen: set[Value] = set()
    inside = _equations_to_gradients(graph, gradients, late)
    for v in (*inside, *gradients):
        for x in (*v.operands, v) if v in late else (v,):
            if x not in late and x not in seen:
                seen.add(x)
                needed.append(x)
    saved, remade = _choose_saved(graph, needed, sources, written)
    further = [v for v in dict.fromkeys(sources) if v not in saved and not isinstance(v.source, Constant)]
    return BackwardGraph(_backward_graph(graph, saved, remade, inside, incoming, gradients), saved, incoming, further)


def _equations_to_gradients(graph: Graph, gradients: list[Value], late: set[Value]) -> list[Value]:
    """The equations of `late` that lead to the gradients, in order."""
    wanted = {g for g in gradients if g in late}
    kept = []
    for v in reversed(graph.equations):
        if v in wanted:
            kept.append(v)
            wanted.update(x for x in v.operands if x in late)
    return kept[::-1]


def graph_from_inputs(graph: Graph, wanted_values: Sequence[Value]) -> tuple[Graph, list[Value]]:
    """Return the graph of these values from inputs and from values that depend on random draws only; and the latter."""
    random: set[Value] = set()
    for v in graph.equations:
        operands = [x for x in v.operands if not isinstance(x.source, Constant)]
        if (v.op.effect and v.op.family != "check") or (operands and all(x in random for x in operands)):
            random.add(v)
    wanted = set(wanted_values)
    drawn: dict[Value, None] = dict.fromkeys(v for v in wanted_values if v in random)
    whole = Graph(graph.name, graph.sizes)
    for v in reversed(graph.equations):
        if v in wanted and v not in random:
            whole.equations.append(v)
            wanted.update(v.operands)
            drawn.update((x, None) for x in v.operands if x in random)
    whole.equations.reverse()
    whole.inputs = [v for v in graph.inputs if v in wanted]
    whole.outputs = list(wanted_values)
    return whole, list(drawn)


def _choose_saved(
    graph: Graph, needed: list[Value], drawn: Sequence[Value], written: Set[Value]
) -> tuple[list[Value], set[Value]]:
    """Choose the needed values to save, and the equations that the backward half repeats to make the others.

    They read no tensor that a gradient rule does not read itself: it may be written, here or outside, before they run.
    """
    read = {x for v in graph.equations if v.origin is not None and v.origin.backward for x in v.operands}
    tensors = {v for v in graph.inputs if isinstance(v.source, (Argument, StateInput))}
    volatile = written | (tensors - read).difference(needed)
    position = {v: i for i, v in enumerate((*graph.inputs, *graph.equations))}
    kept = {v: None for v in needed if v.op is None or v in drawn or not can_rematerialize(v)}
    remade: set[Value] = set()
    for v in sorted(needed, key=position.__getitem__):
        if v in kept or v in remade:
            continue
        chain = _recompute_chain(v, kept, remade, volatile)
        if chain is None:
            kept[v] = None
        else:
            remade |= chain
    for v in remade:
        kept.update((x, None) for x in v.operands if x.op is None)
    return [v for v in sorted(kept, key=position.__getitem__) if not isinstance(v.source, Constant)], remade


def _recompute_chain(v: Value, kept: dict[Value, None], remade: set[Value], volatile: Set[Value]) -> set[Value] | None:
    """Return the equations that make `v` from what is kept and from inputs that are not `volatile`.

    None if saving the value is cheaper, or needed.
    """
    chain: set[Value] = set()
    cost = 0
    stack = [v]
    while stack:
        x = stack.pop()
        if x in chain or x in remade or x in kept:
            continue
        if x in volatile:
            return None
        if x.op is None:
            continue
        if not can_rematerialize(x):
            return None
        chain.add(x)
        cost += recompute_cost(x)
        if cost > SAVE_COST_PER_ELEMENT:
            return None
        stack.extend(x.operands)
    return chain


def _backward_graph(
    graph: Graph,
    saved: list[Value],
    remade: set[Value],
    inside: list[Value],
    incoming: list[Value],
    gradients: list[Value],
) -> Graph:
    out = Graph(f"{graph.name} backward", graph.sizes)
    renamed: dict[Value, Value] = {}
    for i, v in enumerate((*saved, *incoming)):
        source = Argument(i, "saved" if i < len(saved) else f"gradient of result {i - len(saved)}")
        if is_expanded_input(v):
            source = source._replace(strides=v.source.strides)
        renamed[v] = out.input(v, source)
    renamed.update((v, out.input(v, v.source)) for v in graph.inputs_of_kind(Constant))
    late = set(inside)
    for v in graph.equations:
        if v in late or (v in remade and v not in renamed):
            renamed[v] = out.add_like(v, renamed.__getitem__, v.origin and v.origin._replace(backward=True))
    out.outputs = [renamed[g] for g in gradients]
    used = {x for v in out.equations for x in v.operands} | set(out.outputs)
    out.inputs = [v for v in out.inputs if not isinstance(v.source, Constant) or v in used]
    return out
