"""Steps of a backward pass in a notebook: all of them as a page with a slider, or one as a table."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from adjoint.autograd.debug.backward_steps import BackwardSteps, Step
from adjoint.core.graph.node import GraphNode, Leaf, OutputSlot, Vertex
from adjoint.core.op.spec import describe
from adjoint.core.runtime.html import render_frame, render_table
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.core.viewer.page import render_document
from adjoint.diagnosis.visualization.backward_frames import format_norm
from adjoint.diagnosis.visualization.graph_document import draw_tensors
from adjoint.diagnosis.visualization.user_names import read_user_names

MAX_ROWS = 200


def render_steps(steps: BackwardSteps) -> str | None:
    """Return the page of a pass that has not begun; None for one that has, or that cannot run."""
    root = steps.root
    if steps.has_begun or root.node is None or isinstance(root.node, Leaf):
        return None
    names = read_user_names()
    try:
        document = draw_tensors([(names.tensors.get(root.node, "result"), root)], names, True, steps.gradient)
    except RuntimeError:  # it comes again, with the user's line, when the steps are asked for
        return None
    return render_document(document)._repr_html_()


def render_step(step: Step) -> str:
    """Return a table: the node that runs next, those that are ready, and those that wait, with what has arrived."""
    head = ["", "node", "line", "has arrived", "to come"]
    return render_frame(render_table(head, list(_step_rows(step))[:MAX_ROWS], right=(4,)))


def _step_rows(step: Step) -> Iterator[list[str]]:
    yield _row("<b>runs</b>", step.node, step.gradient, 0)
    queue = set(step.queue)
    for node in step.queue:
        yield _row("ready", node, step.gradients.get(node), 0)
    for node, count in step.counts.items():
        if node is not step.node and node not in queue:
            yield _row("waits", node, step.gradients.get(node), count)
    for node, gradient in step.gradients.items():
        if isinstance(node, Leaf):
            yield _row("leaf", node, gradient, None)


def _row(state: str, node: Vertex, gradient: Operand, count: int | None) -> list[str]:
    owner = node.owner if isinstance(node, OutputSlot) else node
    name = f"{owner.name()}[{node.number}]" if isinstance(node, OutputSlot) else owner.name()
    site = owner.site.describe_briefly() if isinstance(owner, GraphNode) else ""
    return [state, escape(name), escape(site), escape(_describe(gradient)), "" if count is None else str(count)]


def _describe(gradient: Operand) -> str:
    if isinstance(gradient, tuple):
        return "; ".join(map(_describe, gradient))
    if not isinstance(gradient, Tensor):
        return "nothing"
    return f"{describe(gradient.array)}, norm {format_norm(gradient.array)}"
