"""Rules on shapes and types of operands: broadcasting that makes all pairs, and double precision that slips in."""

from __future__ import annotations

import ast
from types import FrameType

import numpy as np

from adjoint.core.graph.node import Leaf
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Finding, Place, place_of_frame, place_of_origin
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import Backward, caller_frame
from adjoint.diagnosis.watch.facts import Facts, is_array, op_name
from adjoint.diagnosis.watch.frames import find_expression, find_library_call, find_operands
from adjoint.diagnosis.watch.rule import WatchRule

LOSSES = (
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "gaussian_nll_loss",
    "poisson_nll_loss",
    "binary_cross_entropy_with_logits",
)


class GraphRule(WatchRule):
    """A rule whose findings count only where a backward pass goes through the op."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.pending: dict[Operand, Finding] = {}
        self.seen: set[tuple[Operand, int]] = set()

    def suspect(self, out: Tensor, finding: Finding) -> None:
        """Keep a finding until a backward pass reaches the node of `out`."""
        if out.node is not None and len(self.pending) < 64:
            self.pending[out.node] = finding

    def begin_backward(self, backward: Backward) -> None:
        if not self.pending:
            return
        stack = [root.node for root in backward.roots if root.node is not None]
        reached = set(stack)
        while stack:
            for parent in stack.pop().parents:
                if parent is not None and parent not in reached:
                    reached.add(parent)
                    stack.append(parent)
        for node, finding in self.pending.items():
            if node in reached:
                self.facts.report.add(finding)
        self.pending.clear()


class AllPairs(GraphRule):
    """(N, 1) against (N,) in a loss: every prediction meets every target."""

    ops = frozenset({"sub", "add", "mul", "div", "squared_error", "entropy"})

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if len(inputs) < 2 or not (is_array(inputs[0]) and is_array(inputs[1])):
            return
        a, b = inputs[0], inputs[1]
        first, second = a.array.shape, b.array.shape
        if first == second or not first or not second:
            return
        if op.name == "squared_error":
            size = int(np.prod(np.broadcast_shapes(first, second)))
        else:
            size = out.array.size
        if size <= max(a.array.size, b.array.size):
            return
        loss = find_library_call(*LOSSES)
        frame = caller_frame()
        if loss is None and not self._is_error(op, a, b, frame):
            return
        text = names_of_operands(frame, a, b)
        called = loss.f_code.co_name if loss is not None else {"sub": "-", "add": "+", "mul": "*", "div": "/"}[op.name]
        shape = tuple(np.broadcast_shapes(first, second))
        self.suspect(
            out,
            Finding(
                "broadcast-in-loss",
                place_of_frame(frame),
                text,
                f"{tuple(first)} and {tuple(second)}",
                f"{called} broadcasts {text}, {tuple(first)} and {tuple(second)}, to {shape}: every prediction meets "
                "every target",
                "give both the same shape: squeeze(-1) of the one, or unsqueeze(-1) of the other",
            ),
        )

    def _is_error(self, op: Operand, a: Tensor, b: Tensor, frame: FrameType) -> bool:
        """Return whether a prediction, with a history, meets data: (N, 1) and (N,)."""
        if (a.node is None) == (b.node is None):
            return False
        prediction, target = (a, b) if a.node is not None else (b, a)
        one, other = prediction.array.shape, target.array.shape
        column, row = (one, other) if len(one) > len(other) else (other, one)
        if len(column) != len(row) + 1 or column[-1] != 1 or column[:-1] != row:
            return False
        if op.name == "add" or type(prediction.node) is Leaf or np.may_share_memory(a.array, b.array):
            return False
        made: Operand = prediction.node
        movement = getattr(getattr(made, "op", None), "family", "") == "movement"
        return not (movement and getattr(made, "code", None) is frame.f_code and made.site.line == frame.f_lineno)


class DoublePrecision(GraphRule):
    """float64 data among float32 values, which makes all that follows float64."""

    ops = frozenset({"sub", "add", "mul", "div", "squared_error", "where", "maximum", "minimum"})

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if out.array.dtype != np.float64 or out.node is None:
            return
        tensors = [x for x in inputs if is_array(x)]
        single = [x for x in tensors if x.array.dtype == np.float32 and x.node is not None]
        double = [x for x in tensors if x.array.dtype == np.float64 and x.array.ndim and op_name(x.node) != "cast"]
        if not single or not double:
            return
        frame = caller_frame()
        text = names_of_operands(frame, double[0])
        origin = origin_of_operand(frame, double[0])
        self.suspect(
            out,
            Finding(
                "float64",
                origin or place_of_frame(frame),
                text,
                f"float64 {tuple(double[0].shape)}",
                f"{text} is float64 {tuple(double[0].shape)}, and makes the float32 result of "
                f"{place_of_frame(frame).site.describe_briefly()} float64: twice the memory and time",
                f"{text}.float(), or dtype=float32 where it is made",
            ),
        )


def names_of_operands(frame: FrameType, *values: Tensor) -> str:
    """Return the user's names of values, joined by "and"."""
    operands = find_operands(frame)
    found = find_expression(frame)
    node = None if found is None else found[1]
    texts = ["the prediction", "the target"]
    if isinstance(node, ast.BinOp):
        texts = [text_of(node.left), text_of(node.right)]
    elif isinstance(node, ast.Call) and len(node.args) == 2:
        texts = [text_of(each) for each in node.args]
    names = []
    for value, text in zip(values, texts, strict=False):
        names.append(next((each.text for each in operands if each.value is value), text))
    return " and ".join(names)


def origin_of_operand(frame: FrameType, value: Tensor) -> Place | None:
    """Return the line that made an operand; None where the source does not say it."""
    operands = find_operands(frame)
    return next((place_of_origin(each.origin) for each in operands if each.value is value), None)
