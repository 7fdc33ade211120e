"""Repeated calls of functions that make views: they take the step that the first such call led to.

What `x.unsqueeze(1)` or `x.view(-1, 16)` is depends on the shape of `x` and on the numbers alone. So the first call of
a function with a shape and numbers runs the function, and the step from `x` to its view is kept; others with the same
take the step at once. The function checks its arguments, counts dimensions from the end and names the node: a third of
the time of such a call is left. What is not usual, modes, symbols and keywords among it, is left to the function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import NamedTuple

import numpy as np

from adjoint.core.graph.node import Node
from adjoint.core.op.movement_call import make_view
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.storage import Steps, View
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Function, Operand, Operands

ndarray = np.ndarray
MAX_STEPS_PER_FUNCTION = 4096  # of shapes that keep changing the first are kept
SEQUENCES = frozenset({tuple, list})


class ViewCall(NamedTuple):
    """The record of a call with one shape and numbers: `evaluate` gives the array of the view that `steps` led to."""

    evaluate: Callable[[Array], Array]
    steps: Steps
    called: str  # the name of the node, "" for that of the op; None where no call was recorded yet


def replay_views(function: Function, takes_sequence: bool) -> Function:
    """Let calls of a function of a tensor and integers, which makes views, repeat what it did before.

    `takes_sequence`: the integers may be given as one tuple or list.
    """
    calls: dict[Operands, ViewCall] = {}

    @wraps(function)
    def call(input: Tensor, *given: Operand, **named: Operand) -> Operand:
        if named or not (type(input) is Tensor or isinstance(input, Tensor)):
            return function(input, *given, **named)
        array = input.array
        modes = None
        if nondefault.count:
            modes = mode.__dict__
            if modes["alters_ops"]:
                return function(input, *given)
        if type(array) is not ndarray:
            return function(input, *given)
        numbers = given
        if takes_sequence and len(given) == 1 and type(given[0]) in SEQUENCES:
            numbers = tuple(given[0])
        for n in numbers:  # True and 1.0 are equal to 1, but no integers
            if type(n) is not int:
                return function(input, *given)
        is_recorded = input.node is not None and (modes is None or modes["recording"])
        key = (array.shape, is_recorded, numbers)
        known = calls.get(key)
        if known is not None:
            data = known.evaluate(array)
            base = data.base
            if base is not None and (base is array or base is array.base):
                return make_view(input, data, known.steps, modes, known.called)
            return function(input, *given)
        out = function(input, *given)
        if len(calls) < MAX_STEPS_PER_FUNCTION and (found := _find_step(input, out)) is not None:
            calls[key] = found
        return out

    return call


def _find_step(x: Tensor, out: Tensor) -> ViewCall | None:
    """Return the one step by which `out`, a new view of `x`, was made; None if it was made otherwise."""
    view = out.storage_
    if type(view) is not View or out is x:
        return None
    before = x.storage_
    path, base = (before.path, before.base) if type(before) is View else ((), x)
    if len(view.path) != len(path) + 1 or view.path[:-1] != path or view.base is not base:
        return None
    op, params, start, end = step = view.path[-1]
    node = out.node
    if op is None or start != x.array.shape or end != out.array.shape:
        return None
    if node is not None and (type(node) is not Node or node.parents != (x.node,) or node.op is not op):
        return None
    method = vars(op.public).get("method")
    value = params[op.params[0]]
    # a `methodcaller` would take half as long again
    evaluate = partial(op.evaluate, **params) if method is None else lambda array: method(array, value)
    return ViewCall(evaluate, (step,), getattr(node, "called", ""))
