"""`ad.visualize`: the graph of tensors, of a model's call, or a compiled step, as a page in a browser or a notebook."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from adjoint.autograd.debug.why_no_grad import why_no_grad
from adjoint.core.graph.node import Leaf
from adjoint.core.op.spec import describe
from adjoint.core.runtime.mode import has_interpreter
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.core.viewer.page import GraphPage, render_document, show_page
from adjoint.diagnosis.visualization.graph_contents import iter_tensors
from adjoint.diagnosis.visualization.graph_document import draw_model, draw_tensors
from adjoint.diagnosis.visualization.user_names import UserNames, read_user_names
from adjoint.nn.module.module import Module

__all__ = ["visualize"]


def visualize(
    subject: Operand,
    *inputs: Operand,
    path: str | os.PathLike[str] | None = None,
    backward: bool = False,
    **kwargs: Operand,
) -> GraphPage:
    """Draw the graph of a tensor, of a model's call, or a compiled step, as one HTML page that needs no network.

    A tensor, or a tuple, list or dictionary of tensors, shows what backward would walk: nodes in boxes for modules,
    functions and loops, shapes and bytes on the edges, the saved values, the leaves, and the lines of the program.
    `visualize(model, *inputs)` runs the model once, in its mode; buffers and random numbers stay as they were. A
    compiled step shows the program that ran last. In a notebook the page that is returned is shown; elsewhere it
    opens in a browser.

    Args:
        subject: tensor or tensors with history, a module, or a compiled step.
        inputs: the module's arguments; `kwargs` are passed on too.
        path: file to write, instead of opening the page. Default: None.
        backward: True to add the steps of a backward pass, with a slider. `.grad` and the graph stay as they are;
            hooks run, except those of leaves. Default: False.

    Returns: the page, with `html`, `write(path)` and `open()`.

    Raises: TypeError for what has no graph to draw, RuntimeError for tensors without history.

    Example:
        >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        >>> page = ad.visualize(model, ad.ones(2, 3), path="/dev/null")  # or "model.html"
        >>> page.title
        'Sequential(f32[2,3]): 3 nodes'
    """
    if has_interpreter():
        raise RuntimeError("visualize: a graph is drawn outside of vmap, grad, jvp and compiled steps")
    make_page = getattr(type(subject), "page", None)
    if isinstance(subject, Module) and make_page is None:
        return show_page(render_document(draw_model(subject, inputs, kwargs, backward)), path)
    if inputs or kwargs:
        raise TypeError(
            f"visualize: only a module takes inputs, and this is a {type(subject).__name__}: call it yourself, and "
            "visualize what it returns"
        )
    if make_page is not None and not isinstance(subject, Tensor):
        made = subject.page()
        return show_page(made if isinstance(made, GraphPage) else GraphPage(type(subject).__name__, str(made)), path)
    names = read_user_names()
    roots = _name_roots(subject, names)
    return show_page(render_document(draw_tensors(roots, names, backward)), path)


def _name_roots(subject: Operand, names: UserNames) -> list[tuple[str, Tensor]]:
    """Return the tensors with history among `subject`, with names. Raises TypeError or RuntimeError if none is."""
    if isinstance(subject, Tensor):
        found = [("", subject)]
    elif isinstance(subject, (tuple, list, Mapping)) and subject:
        found = list(iter_tensors(subject, ""))
    else:
        found = []
    if not found:
        raise TypeError(
            "visualize: expected a tensor that was computed from others, a tuple, list or dictionary of such tensors, "
            f"a module with its inputs, or a compiled step; got {_describe_subject(subject)}"
        )
    drawn = [(name, root) for name, root in found if root.node is not None and not isinstance(root.node, Leaf)]
    if not drawn:
        raise RuntimeError(_explain_missing_graph(found[0][1]))
    return [(name or names.tensors.get(root.node, "result"), root) for name, root in drawn if root.node is not None]


def _describe_subject(subject: object) -> str:
    if isinstance(subject, np.ndarray):
        return f"a NumPy array, {describe(subject)}: arrays have no history"
    if isinstance(subject, (tuple, list, Mapping)):
        return f"a {type(subject).__name__} without tensors"
    if isinstance(subject, type) and issubclass(subject, Module):
        return f"the class {subject.__name__}: make a module of it, {subject.__name__}(…)"
    if callable(subject):
        name = getattr(subject, "__name__", type(subject).__name__)
        return f"the function {name}: call it, and visualize what it returns, or compile it with ad.compile"
    return type(subject).__name__


def _explain_missing_graph(tensor: Tensor) -> str:
    if isinstance(tensor.node, Leaf):
        return (
            f"visualize: this {type(tensor).__name__}, {describe(tensor.array)}, is a leaf: nothing made it, so there "
            "is nothing to draw. Visualize what was computed from it, such as the loss."
        )
    return f"visualize: this {type(tensor).__name__}, {describe(tensor.array)}, has no history. {why_no_grad(tensor)}"
