"""Rules on shapes of operands: broadcasting that makes all pairs, layers that go along the batch, pooled channels."""

from __future__ import annotations

import ast
from types import FrameType

import numpy as np

from adjoint.core.graph.node import Leaf
from adjoint.core.graph.source_location import library_files
from adjoint.core.op.op import Op
from adjoint.core.tensor.mutation_log import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Finding, place_of_frame
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import Backward, ModuleCall, caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array, op_name
from adjoint.diagnosis.watch.frames import find_expression, find_library_call, find_operands
from adjoint.diagnosis.watch.library_calls import WRITTEN_ERRORS
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.nn.layers.attention import MultiheadAttention
from adjoint.nn.layers.recurrent import RNNBase

SIGNS = {"sub": "-", "add": "+", "mul": "*", "div": "/", "eq": "==", "ne": "!="}
COMPARISONS = ("eq", "ne")
MIN_PAIRED = 4  # values
MAX_STEPS_BACK = 6  # from a pooled value to its convolution
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


class BatchFirst(WatchRule):
    """A recurrent layer that goes along the batch, for its input has the batch first."""

    ops = frozenset({"mean_nll"})
    modules = (RNNBase, MultiheadAttention)

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.inputs: list[tuple[RNNBase, tuple[int, ...]]] = []  # since the last loss
        self.samples = 0  # of the last batch that a loader gave

    def batch_is_given(self, batch: Operand) -> None:
        """See a batch of a loader."""
        parts = list(batch.values()) if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else []
        sizes = {part.array.shape[:1] for part in parts if is_array(part)}
        self.samples = next(iter(sizes))[0] if len(sizes) == 1 and len(parts) > 1 and () not in sizes else 0

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        x = next(iter(call.tensors()), None)
        if isinstance(call.module, self.modules) and call.is_recording and x is not None and x.array.ndim == 3:
            if isinstance(call.module, RNNBase):
                self.inputs.append((call.module, tuple(x.shape)))
            if 1 < self.samples == x.array.shape[0] != x.array.shape[1] > 1 and not call.module.batch_first:
                self._report(call.module, x.array.shape)

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        scores = inputs[0]
        for module, (first, second, _) in self.inputs if isinstance(scores, Tensor) else ():
            if not module.batch_first and scores.array.ndim == 2 and scores.array.shape[0] == first != second > 1:
                self._report(module, (first, second, _))
        self.inputs.clear()

    def _report(self, module: Operand, shape: tuple[int, ...]) -> None:
        name = self.facts.names.name_of_module(module)
        self.report(
            "batch-first",
            self.facts.names.origin_of_module(module),
            name,
            f"{name} takes (time, batch, features), and goes along the {shape[0]} samples of its input "
            f"{shape}: each sample is mixed with those before it",
            "make it with batch_first=True, or transpose(0, 1) its input",
            shape,
        )


class GraphRule(WatchRule):
    """A rule whose findings count only where a backward pass goes through the op."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.pending: dict[Operand, tuple[Tensor, Finding]] = {}  # by the node, or by identity
        self.seen: set[tuple[Operand, int]] = set()

    def suspect(self, out: Tensor, finding: Finding) -> None:
        """Keep a finding until a backward pass reaches the node of `out`."""
        if len(self.pending) < 64:
            self.pending[id(out) if out.node is None else out.node] = out, finding

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
        for node, (out, finding) in self.pending.items():
            if node in reached or self.is_used(out, reached):
                self.facts.report.add(finding)
        self.pending.clear()

    def is_used(self, out: Tensor, reached: set[Operand]) -> bool:
        """Return whether what backward reaches comes from a value without a history, such as the target."""
        flow = self.facts.flow
        data = [x for made in flow.steps.values() if made.out.node in reached for x in made.tensors if x.node is None]
        return any(x.array is out.array for x in data) or any(made.out is out for made in flow.makers_behind(*data))


class AllPairs(GraphRule):
    """(N, 1) against (N,) or (1, N), in a loss or an accuracy: every prediction meets every target."""

    ops = frozenset(
        {"sub", "add", "mul", "div", "squared_error", "entropy", "smooth_l1", "huber", "logit_entropy", "xlogy"}
    ) | {"eq", "ne"}
    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.prediction: Operand = None  # memory of the last one that was not recorded
        self.turned: list[Tensor] = []  # differences of columns and rows

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        self.prediction = owner(output.array) if not call.is_recording and is_array(output) else None

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if len(inputs) < 2 or not (is_array(inputs[0]) and is_array(inputs[1])):
            return
        a, b = inputs[0], inputs[1]
        first, second, shape = a.array.shape, b.array.shape, out.array.shape
        if first == second or not first or not second:
            return
        if out.array.size <= max(a.array.size, b.array.size):
            self._check_one_for_all(a, b)
            return
        frame = caller_frame()
        is_metric = self._is_metric(op, a, b) and not library_files[frame.f_code.co_filename]
        is_early = self.facts.round < CHECKED_PASSES
        loss = find_library_call(*LOSSES) if is_early and op.name not in COMPARISONS else None
        if loss is None and not is_metric and not (is_early and self._is_error(op, a, b, frame)):
            return
        text = names_of_operands(frame, a, b)
        called = loss.f_code.co_name if loss is not None else SIGNS.get(op.name, op.name)
        finding = Finding(
            f"broadcast-in-{'metric' if is_metric else 'loss'}",
            place_of_frame(frame),
            called if is_metric else text,
            f"{first} and {second}",
            f"{called} broadcasts {text}, {first} and {second}, to {shape}: every prediction meets every "
            f"{'label' if is_metric else 'target'}",
            "give both the same shape: squeeze(-1) of the one, or unsqueeze(-1) of the other",
        )
        if is_metric:
            self.facts.report.add(finding)
        else:
            self.suspect(out, finding)
            self.turned += [out] if loss is None and a.array.ndim == b.array.ndim else []

    def _check_one_for_all(self, x: Tensor, target: Tensor) -> None:
        """Report a loss that compares the prediction for one sample of a batch with the targets of all."""
        made = self.facts.flow.maker(x) if x.node is not None and self.facts.flow.is_open else None
        loss = find_library_call(*LOSSES) if made is not None and target.node is None else None
        if loss is None or made is None or made.family != "movement" or not made.tensors:
            return
        whole, shape = made.tensors[0].array.shape, target.array.shape
        if whole == shape and len(whole) > 1 and x.array.size * whole[0] == made.tensors[0].array.size:
            text, called = names_of_operands(caller_frame(), x), loss.f_code.co_name
            problem = f"{text} {tuple(x.shape)} is the first of the {whole[0]} results {whole}, and {called} compares "
            problem += f"it with the targets {shape} of all"
            advice = "the whole result, without the index"
            self.report("broadcast-in-loss", made.place, text, problem, advice, f"{tuple(x.shape)} and {shape}")

    def begin_backward(self, backward: Backward) -> None:
        flow, turned, self.turned = self.facts.flow, self.turned, []
        if turned:
            terms = [term.made for root in backward.roots for term in flow.terms(root) if term.made is not None]
            errors = [x for made in terms if made.op in WRITTEN_ERRORS for x in made.tensors]
            for out in turned:  # others are pairs by intent, such as distances to centers
                if all(x is not out for x in errors):
                    self.pending.pop(out.node, None)
        super().begin_backward(backward)

    def _is_metric(self, op: Op, a: Tensor, b: Tensor) -> bool:
        """Return whether values that are not recorded are compared with labels: (N, 1) and (N,)."""
        is_compared = op.name in COMPARISONS
        is_predicted = op.name == "sub" and self.prediction is not None and owner(a.array) is self.prediction
        if not (is_compared or is_predicted) or max(a.array.size, b.array.size) < MIN_PAIRED:
            return False
        if np.may_share_memory(a.array, b.array) or np.array_equal(a.array.ravel(), b.array.ravel()):
            return False
        return is_column_of(a, b) or is_column_of(b, a) or self._is_column_against_row(a, b)

    def _is_column_against_row(self, a: Tensor, b: Tensor) -> bool:
        """Return whether (N, 1) meets (1, N), and no line has turned one of them to meet the other."""
        flow, shapes = self.facts.flow, {a.array.shape, b.array.shape}
        if shapes != {(a.array.size, 1), (1, a.array.size)} or a.array.size < MIN_PAIRED or not flow.is_open:
            return False
        makers = [flow.maker(a), flow.maker(b)]
        return not any(made is not None and made.family == "movement" for made in makers)

    def _is_error(self, op: Operand, a: Tensor, b: Tensor, frame: FrameType) -> bool:
        """Return whether a prediction, with a history, meets data or another: (N, 1) and (N,)."""
        prediction, target = (a, b) if a.node is not None else (b, a)
        if op.name in COMPARISONS:
            return False
        is_recorded = prediction.node is not None and type(prediction.node) is not Leaf
        if op.name == "sub" and is_recorded and target.node is None and self._is_column_against_row(a, b):
            return True
        if self._is_channel_of(prediction, target):
            return True
        if not is_column_of(prediction, target) and not is_column_of(target, prediction):
            return False
        column = max(a, b, key=lambda x: x.array.ndim)
        if prediction.node is None:
            return op.name in ("add", "sub", "mul") and self._is_result(column)
        if target.node is not None and self._is_pairing(column, target):
            return False
        if (
            (op.name == "add" and target.node is None)
            or type(prediction.node) is Leaf
            or np.may_share_memory(a.array, b.array)
        ):
            return False
        made: Operand = prediction.node
        movement = getattr(getattr(made, "op", None), "family", "") == "movement"
        return not (movement and getattr(made, "code", None) is frame.f_code and made.site.line == frame.f_lineno)

    def _is_channel_of(self, prediction: Tensor, target: Tensor) -> bool:
        """Return whether a result (N, 1, H, W), which no line has turned, meets data (N, H, W)."""
        (n, *rest), flow = prediction.array.shape, self.facts.flow
        if len(rest) < 3 or n < 2 or rest[0] != 1 or target.array.shape != (n, *rest[1:]) or not flow.is_open:
            return False
        made = flow.maker(prediction)
        return target.node is None and made is not None and made.family != "movement"

    def _is_result(self, column: Tensor) -> bool:
        """Return whether a layer gave a column without recording, times a number or not: targets are made of it."""
        made = self.facts.flow.maker(column)
        while made is not None and made.family != "movement" and len(made.tensors) == 1:
            made = self.facts.flow.maker(made.tensors[0])
        return made is not None and any(x.requires_grad for x in made.tensors)

    def _is_pairing(self, column: Tensor, target: Tensor) -> bool:
        """Return whether a program made a column of its own to meet each row: a view or a leaf, and no result."""
        node: Operand = column.node
        is_view = getattr(getattr(node, "op", None), "family", "") == "movement"
        below = node.parents[0] if is_view else None
        is_raised = below is not None and len(getattr(below, "shape", ())) < column.array.ndim
        return is_raised or type(node) is Leaf or type(target.node) is Leaf


def is_column_of(column: Tensor, row: Tensor) -> bool:
    """Return whether a tensor has the shape of another, and a 1 after it."""
    return column.array.shape == (*row.array.shape, 1)


def names_of_operands(frame: FrameType, *values: Tensor) -> str:
    """Return the user's names of values, joined by "and"."""
    operands = find_operands(frame)
    found = find_expression(frame)
    node = None if found is None or len(values) < 2 else found[1]
    texts = ["the prediction" if len(values) > 1 else "an operand", "the target"]
    if isinstance(node, ast.BinOp):
        texts = [text_of(node.left), text_of(node.right)]
    elif isinstance(node, ast.Call) and len(node.args) == 2:
        texts = [text_of(each) for each in node.args]
    names = []
    for value, text in zip(values, texts, strict=False):
        names.append(next((each.text for each in operands if each.value is value), text))
    return " and ".join(names)


class PooledChannels(WatchRule):
    """A mean or maximum of a convolution's result over its channels and one of two dimensions of the image."""

    ops = frozenset({"mean", "max", "sum"})
    max_passes = 2

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x, node = inputs[0], out.node
        params = getattr(node, "params", None) or {}
        axes = params.get("axes")
        if not isinstance(x, Tensor) or x.array.ndim != 4 or axes is None or params.get("keepdims"):
            return
        if sorted(axes) not in ([1, 2], [1, 3]) or min(x.array.shape[1:]) < 2:
            return
        made: Operand = x.node
        for _ in range(MAX_STEPS_BACK):
            if op_name(made) == "convolution":
                shape = tuple(x.shape)
                problem = (
                    f"{op.name} of {shape} over {tuple(axes)} is over its {shape[1]} channels and one dimension of "
                )
                problem += "the image: (batch, channels, height, width)"
                self.report("pooled-channels", caller_place(), op.name, problem, f"x.{op.name}((2, 3))", tuple(axes))
                return
            made = made.parents[0] if made is not None and getattr(made, "parents", None) else None
