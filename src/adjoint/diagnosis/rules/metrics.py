"""Rules on predictions and metrics: thresholds of logits, the best sample for the best class, one-hot labels, means."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from adjoint.core.graph.source_location import Site, library_files
from adjoint.core.op.op import Op
from adjoint.core.tensor.mutation_log import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Finding, Place, place_of_frame
from adjoint.diagnosis.rules.shapes import names_of_operands
from adjoint.diagnosis.source_expressions import SourceFile, parse_source, text_of
from adjoint.diagnosis.watch.events import Backward, ModuleCall, caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array, op_name
from adjoint.diagnosis.watch.frames import find_expression
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import LossTerm
from adjoint.nn.module.module import Module

MAX_PASSES = 4  # in which metrics are looked at
MIN_LABELS = 4
MIN_ONE_HOT = 8
MAX_MEAN = 2  # the weight of a mean in a loss
COUNT = re.compile(r"len\(\w+\)|[\w.]+\.size\(0\)|[\w.]+\.shape\[0\]")


class OneHotAccuracy(WatchRule):
    """An accuracy over all elements of one-hot labels, most of which are 0 on both sides."""

    ops = frozenset({"eq"})

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        a, b = inputs[:2]
        if not is_array(a) or not is_array(b) or a.array.shape != b.array.shape or a.array.ndim != 2:
            return
        rows, classes = b.array.shape
        if rows < MIN_ONE_HOT or classes < 3 or not is_one_hot(b.array) or np.may_share_memory(a.array, b.array):
            return
        frame = caller_frame()
        place = place_of_frame(frame)
        if library_files[frame.f_code.co_filename] or ".all(" in place.text or np.array_equal(a.array, b.array):
            return
        right = float((a.array == b.array).all(axis=1).mean())
        problem = f"== of one-hot labels {(rows, classes)} counts the 0 that most elements are on both sides: "
        problem += f"{float(out.array.mean()):.0%} of the elements are equal, and {right:.0%} of the samples"
        advice = "compare the classes: scores.argmax(1) == labels.argmax(1)"
        self.report("accuracy-of-elements", place, "==", problem, advice, (rows, classes))


def is_one_hot(array: Operand) -> bool:
    """Return whether each row has one 1, and 0 else."""
    return bool(((array == 0) | (array == 1)).all() and (array.sum(axis=1) == 1).all())


class PredictionRule(WatchRule):
    """A rule on the results of models, trained or evaluated, that one of some losses gets in training."""

    sees_roots_only = True
    losses: ClassVar[tuple[str, ...]]

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.outputs: dict[int, tuple[Module, Operand]] = {}  # the last values of each outermost module
        self.models: set[int] = set()  # whose values the losses get

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if is_array(output):
            self.outputs[id(call.module)] = call.module, output.array

    def see_call(self, call: LibraryCall) -> None:
        x = call.tensor("input")
        if call.name in self.losses and x is not None:
            source = self.facts.flow.source(x) if self.facts.flow.is_open else x
            known = (x.array, source.array)
            self.models |= {key for key, (_, values) in self.outputs.items() if any(values is each for each in known)}

    def is_prediction(self, x: Tensor) -> bool:
        """Return whether a value is the last result of such a model, or a view of it."""
        memory: Operand = owner(x.array)
        return any(owner(self.outputs[key][1]) is memory for key in self.models)


class MetricChoice(PredictionRule):
    """The largest score over the batch, where that over the classes was meant, and scores compared with classes."""

    ops = frozenset({"eq"})
    losses = ("cross_entropy", "nll_loss")

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.logits: Operand = None  # the last ones
        self.found: tuple[Operand, Finding] | None = None  # over dimension 0 of values

    def see_call(self, call: LibraryCall) -> None:
        super().see_call(call)
        x = call.tensor("input")
        if call.name in self.losses and x is not None and x.array.ndim in (2, 4):
            self.logits = x.array
            if self.found is not None and self.found[0] is x.array:
                self.facts.report.add(self.found[1])

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if self.facts.iteration <= MAX_PASSES and len(inputs) > 1 and is_array(inputs[0]) and is_array(inputs[1]):
            scores, labels = inputs[:2] if inputs[0].array.dtype.kind == "f" else inputs[1::-1]
            self._check_scores(scores, labels)

    def best_is_chosen(self, x: Operand = None, *args: Operand, **kwargs: Operand) -> None:
        """See a call of argmax, max or topk."""
        given = kwargs.get("dim", args[-1] if args else None)
        if type(given) is not int or not is_array(x) or x.array.ndim not in (2, 4) or min(x.array.shape) < 2:
            return
        is_map = x.array.ndim == 4
        if given % x.array.ndim == 1 or (given % x.array.ndim and not is_map):
            return
        frame = caller_frame()
        expression = None if library_files[frame.f_code.co_filename] else find_expression(frame)
        if expression is None:
            return
        node = expression[1].func if isinstance(expression[1], ast.Call) else expression[1]
        name, shape = text_of(node).rpartition(".")[2], tuple(x.shape)
        if name not in ("argmax", "max", "topk") or (name == "topk" and "dim" not in kwargs):
            return
        chosen = "place" if given % x.array.ndim else "sample"
        problem = f"{name} of the logits {shape} is over dimension {given}: it gives the best {chosen} of each class, "
        problem += f"and not the best class of each {'place' if is_map else 'sample'}"
        advice = f"{name}({'k, ' if name == 'topk' else ''}dim=1)"
        finding = Finding("argmax-dimension", place_of_frame(frame), name, f"dim={given} of {shape}", problem, advice)
        self.found = x.array, finding
        is_alike = x.node is not None and self.logits is not None and shape[0] != shape[1] == self.logits.shape[1]
        if is_alike or self.logits is x.array or self.is_prediction(x):
            self.facts.report.add(finding)

    def _check_scores(self, scores: Tensor, labels: Tensor) -> None:
        a, b = scores.array, labels.array
        if a.dtype.kind != "f" or b.dtype.kind not in "iu" or a.shape != b.shape or a.size < MIN_LABELS:
            return
        frame = caller_frame()
        if scores.node is not None and not library_files[frame.f_code.co_filename] and (a != np.round(a)).all():
            text = names_of_operands(frame, scores, labels)
            problem = f"== compares {text}: scores such as {a.flat[0]:.3g} with classes such as {b.flat[0]}, which are "
            problem += "never equal"
            advice = "take the index of the largest score: out.argmax(1), or the second result of max"
            self.report("score-as-class", place_of_frame(frame), "==", problem, advice, f"{a.flat[0]:.3g}")

    def begin_backward(self, backward: Backward) -> None:
        self.found = None


class LogitThreshold(PredictionRule):
    """Logits of a binary loss that are compared with a probability, or that go through softmax."""

    ops = frozenset({"gt", "ge", "lt", "le", "softmax", "sigmoid", "round"})
    losses = ("binary_cross_entropy_with_logits",)

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.probabilities: Operand = None  # memory of the last ones

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if not self.models or not is_array(x) or library_files[caller_frame().f_code.co_filename]:
            return
        shape = tuple(x.shape)
        if op.name == "sigmoid":
            self.probabilities = owner(out.array)
            return
        if op.name in ("gt", "ge") and self.probabilities is not None and owner(x.array) is self.probabilities:
            if out.array.size > 1 and out.array.all() and find_limit(inputs) == 0:
                problem = f"probabilities {shape} are compared with 0: all are above it"
                self.report("threshold-of-probabilities", caller_place(), "0", problem, "> 0.5", shape)
            return
        if not self.is_prediction(x):
            return
        if op.name == "round":
            if out.node is None and bool(np.any(x.array < 0)):
                problem = (
                    f"logits {shape} are rounded to classes: they go from {x.array.min():.3g} to {x.array.max():.3g}"
                )
                self.report("threshold-of-logits", caller_place(), "round", problem, "round(sigmoid(logits))", shape)
            return
        if op.name == "softmax":
            if x.array.shape[-1] > 1 and out.array.size > 1:
                problem = (
                    f"softmax of logits {shape} of a binary loss for each class: the classes do not exclude each other"
                )
                self.report("softmax-of-binary", caller_place(), "softmax", problem, "sigmoid", shape)
            return
        limit = find_limit(inputs)
        if limit == 0.5 and bool(np.any(x.array < 0)):
            problem = f"logits {shape} are compared with {limit:g}: a probability of 0.5 is a logit of 0"
            self.report(
                "threshold-of-logits", caller_place(), f"{limit:g}", problem, "> 0, or sigmoid before it", limit
            )


def find_limit(inputs: Operands) -> float | None:
    """Return the number with which the user's line compares."""
    if len(inputs) > 1 and isinstance(inputs[1], (int, float)):
        return float(inputs[1])
    found = find_expression(caller_frame())
    node = found[1] if found is not None else None
    right = node.comparators[0] if isinstance(node, ast.Compare) else None
    value = right.value if isinstance(right, ast.Constant) else None
    return float(value) if isinstance(value, (int, float)) else None


class SumOfMeans(WatchRule):
    """Means over batches that are added up and divided by the number of samples."""

    max_passes = 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.mean: tuple[str, Place] | None = None  # the name of the first loss, and the line of its pass

    def begin_backward(self, backward: Backward) -> None:
        root, frame = backward.roots[0], caller_frame()
        name = next((name for name, value in frame.f_locals.items() if value is root), "")
        if name and all(map(is_mean_term, self.facts.flow.terms(root))):
            self.mean = name, backward.place

    def finish(self) -> None:
        source = None if self.mean is None else parse_source(self.mean[1].site.file)
        if self.mean is None or source is None:
            return
        name = self.mean[0]
        for line, total, count in find_sums_of_items(source, name):
            problem = (
                f"{total} adds up the means {name} of batches, and {count} counts samples: the quotient is as many "
            )
            problem += "times too small as a batch has samples"
            place = Place(Site(source.name, line.lineno, ""))
            advice = f"{total} += {name}.item() * len(x), or divide by the number of batches"
            self.report("sum-of-means", place, total, problem, advice, line.lineno)
            return


def is_mean_term(term: LossTerm) -> bool:
    """Return whether a term of a loss is a mean over samples."""
    node: Operand = None if term.made is None else term.made.out.node
    reduction = (getattr(node, "params", None) or {}).get("reduction", "")
    size = term.value.array.size
    return reduction == "mean" or op_name(node) == "mean_nll" or (size > 1 and term.factor * size <= MAX_MEAN)


def find_sums_of_items(source: SourceFile, name: str) -> Iterator[tuple[ast.AugAssign, str, str]]:
    """Yield the lines `total += loss.item()` whose total is divided by a number of samples, with both names."""
    changes, products = source.nodes_of(ast.AugAssign), source.nodes_of(ast.BinOp)
    counts = {text_of(node.target) for node in changes if COUNT.fullmatch(text_of(node.value))}
    quotients = [(text_of(node.left), text_of(node.right)) for node in products if isinstance(node.op, ast.Div)]
    quotients += [(text_of(node.target), text_of(node.value)) for node in changes if isinstance(node.op, ast.Div)]
    for node in changes:
        if text_of(node.value) in (f"{name}.item()", f"float({name})"):
            total = text_of(node.target)
            for left, right in quotients:
                if left == total and (right in counts or re.fullmatch(r"len\([\w.]+\.dataset\)", right)):
                    yield node, total, right
