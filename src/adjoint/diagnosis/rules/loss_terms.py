"""Rules on the terms of a loss: means that are taken too early, penalties without a gradient, wrong signs."""

from __future__ import annotations

import ast
import weakref

from adjoint.core.graph.node import Leaf, Node
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Finding, Place
from adjoint.diagnosis.rules.settings import LOSS_OPS
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import Backward, ModuleCall, caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array, op_name, producer_of
from adjoint.diagnosis.watch.frames import find_library_call, find_operands
from adjoint.diagnosis.watch.library_calls import WRITTEN_ERRORS, LibraryCall
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.diagnosis.watch.source_lines import nodes_at
from adjoint.nn.layers.normalization import LayerNorm

MIN_BATCH = 4
MAX_PASSES = 3
MAX_SIGNED = 6  # passes whose loss is looked at
MAX_WALKED = 40  # nodes behind a loss
PROJECTIONS = ("linear", "mm", "addmm", "add", "relu", "tanh")


class MeanBeforeLoss(WatchRule):
    """The mean of the predictions compared with the mean of the targets: the samples no longer count."""

    ops = frozenset({"mean", "sub"})
    sees_roots_only = True
    max_passes = MAX_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.output: tuple[Operand, int] | None = None  # the node of the model's last result, and its samples
        self.means: list[tuple[weakref.ref[Tensor], int]] = []  # of data, over so many samples

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if call.parent is None and isinstance(output, Tensor) and output.node is not None and output.array.ndim:
            self.output = output.node, output.array.shape[0]

    def begin_backward(self, backward: Backward) -> None:
        self.output = None
        self.means = []
        flow = self.facts.flow
        terms = [term for root in backward.roots for term in flow.terms(root)] if flow.is_open else []
        error = terms[0].made if len(terms) == 1 else None
        mean = flow.maker(error.tensors[0]) if error is not None and error.op in WRITTEN_ERRORS else None
        below = flow.maker(mean.tensors[0]) if mean is not None and mean.op == "mean" else None
        sides = below.tensors if below is not None and below.op == "sub" and mean is not None else []
        is_error = len(sides) == 2 and len([x for x in sides if x.node is None]) == 1
        if is_error and mean is not None and below is not None and below.out.array.size >= MIN_BATCH:
            count = below.out.array.size
            problem = f"the mean of {count} differences is taken before its "
            problem += "square: those above and below 0 cancel, and a sample's own target does not count"
            advice = "the square of each difference, and the mean of the squares"
            self.report("mean-before-loss", mean.place, "mean", problem, advice, count)

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if self.facts.iteration > MAX_PASSES:
            return
        x = inputs[0]
        if op.name == "mean":
            if out.node is None and is_array(x) and x.array.ndim and out.array.shape == x.array.shape[1:]:
                self.means.append((weakref.ref(out), x.array.shape[0]))
        elif len(inputs) > 1:
            self._check(inputs[0], inputs[1])

    def see_call(self, call: LibraryCall) -> None:
        if self.facts.iteration <= MAX_PASSES:
            self._check(call.tensor("input"), call.tensor("target"))

    def _check(self, prediction: Operand, target: Operand) -> None:
        if self.output is None or not isinstance(prediction, Tensor) or prediction.node is None:
            return
        node, samples = self.output
        mean = prediction.node
        if (
            op_name(mean) != "mean"
            or samples < MIN_BATCH
            or producer_of(mean.parents[0]) not in (node, producer_of(node))
        ):
            return
        of_target = next((count for known, count in self.means if known() is target), 0)
        if of_target == samples:
            problem = (
                f"the mean of {samples} predictions is compared with the mean of {samples} targets: a sample's own "
            )
            problem += "target does not count"
            advice = "compare each prediction with its target, and take the mean of the losses"
            self.report("mean-before-loss", caller_place(), "mean", problem, advice, samples)


class WeightsAfterReduction(WatchRule):
    """Weights of samples that multiply a loss which is a mean already."""

    ops = frozenset({"mul"})
    max_passes = MAX_PASSES + 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.samples = 0  # of the last loss

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        if target is not None and target.array.ndim and call.arguments.get("reduction") in ("mean", "sum"):
            self.samples = target.array.shape[0]

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if self.samples < MIN_BATCH or out.array.shape[:1] != (self.samples,) or self.facts.iteration > MAX_PASSES:
            return
        for loss, weights in (inputs[:2], inputs[1::-1]):
            if not (is_array(loss) and is_array(weights)) or loss.array.ndim or loss.node is None:
                continue
            if (
                weights.node is None
                and weights.array.shape == out.array.shape
                and find_library_call("backward") is None
            ):
                operands = find_operands(caller_frame())
                name = next((each.text for each in operands if each.value is weights), "weights")
                problem = (
                    f"{name} {weights.array.shape} multiplies a loss that is a single number: each sample counts the "
                )
                problem += "same"
                advice = 'reduction="none" in the loss, then (loss * weights).mean()'
                self.report("weights-after-reduction", caller_place(), name, problem, advice, weights.array.shape)
                return

    def begin_backward(self, backward: Backward) -> None:
        self.samples = 0


class NormOverBatch(WatchRule):
    """A layer norm whose statistics are over the samples too."""

    ops = frozenset({"mean", "layer_norm"})
    max_passes = MAX_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.found: tuple[int, Finding] | None = None

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        frame = find_library_call("layer_norm") if self.facts.iteration < MAX_PASSES and self.found is None else None
        x = None if frame is None else frame.f_locals.get("input")
        if frame is None or not isinstance(x, Tensor):
            return
        sizes = frame.f_locals.get("normalized_shape")
        count = 1 if isinstance(sizes, int) else len(sizes or ())
        if count == x.array.ndim >= 2 and x.array.shape[0] >= MIN_BATCH:
            module = self.facts.module()
            name = self.facts.names.name_of_module(module) if isinstance(module, LayerNorm) else "layer_norm"
            shape = tuple(x.shape)
            problem = (
                f"layer_norm of {shape} is over all {shape[0]} samples: each is changed by the others of its batch"
            )
            advice = f"normalize over the features: normalized_shape={shape[1:]}"
            place: Place = caller_place()
            self.found = shape[0], Finding("norm-over-batch", place, name, str(shape), problem, advice)

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        if self.found is not None and target is not None and target.array.shape[:1] == (self.found[0],):
            self.facts.report.add(self.found[1])


class NormalizedBatch(WatchRule):
    """Vectors that are normalized over the samples, or over the steps, and not over their features."""

    ops = frozenset({"div", "unit_vectors"})
    max_passes = MAX_PASSES

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if self.facts.iteration >= MAX_PASSES or out.array.ndim not in (2, 3) or out.node is None:
            return
        frame = find_library_call("normalize")
        x = None if frame is None else frame.f_locals.get("input")
        if frame is None or not isinstance(x, Tensor) or x.node is None or type(x.node) is Leaf:
            return
        dim, rank = frame.f_locals.get("dim"), x.array.ndim
        if dim in (rank - 2, -2) and min(x.array.shape[-2:]) >= MIN_BATCH and op_name(x.node) in PROJECTIONS:
            shape, what = tuple(x.shape), "samples" if rank == 2 else "steps"
            problem = f"normalize of {shape} is over dimension {rank - 2}, the {what}: the vector of each has "
            problem += "another length than 1"
            self.report("normalize-dimension", caller_place(), "normalize", problem, "dim=-1", f"dim={dim} of {shape}")


class ConstantPenalty(WatchRule):
    """A penalty on parameters that is added to the loss without its gradient."""

    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.known_cuts = 0
        self.counts: dict[Place, int] = {}
        self.what = ""

    def begin_backward(self, backward: Backward) -> None:
        cuts = self.facts.cuts[self.known_cuts :]
        self.known_cuts = len(self.facts.cuts)
        root: Operand = backward.roots[0].node if len(backward.roots) == 1 else None
        of_parameters = [cut for cut in cuts if cut.parameters and not cut.what.startswith("arg")]
        if op_name(root) in ("add", "sub") and None in root.parents and of_parameters:
            cut = of_parameters[0]
            self.what = cut.what
            self.counts[cut.place] = self.counts.get(cut.place, 0) + 1

    def finish(self) -> None:
        for place, count in self.counts.items():
            if count >= 2 and count >= min(self.facts.iteration, CHECKED_PASSES) // 2:
                problem = (
                    f"the penalty of {self.what} that is added to the loss has no gradient: it changes no parameter"
                )
                advice = f"leave out {self.what}: p.abs().sum() of the parameters themselves"
                self.report("constant-penalty", place, self.what, problem, advice, count)


class LossSign(WatchRule):
    """A divergence that is subtracted from the loss, and a likelihood that is made small."""

    sees_every_step = True
    max_passes = MAX_SIGNED + 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.divergences: list[tuple[Place, str]] = []
        self.likelihoods: list[Place] = []

    def begin_backward(self, backward: Backward) -> None:
        root: Operand = backward.roots[0] if len(backward.roots) == 1 else None
        node = None if root is None else root.node
        if not isinstance(node, Node) or self.facts.iteration > MAX_SIGNED:
            return
        if node.op.name == "sub" and None not in node.parents and op_name(node.parents[0]) in LOSS_OPS:
            names = {op_name(each) for each in nodes_of(node.parents[1])}
            logits = {"log", "logsumexp", "log_softmax", "softmax"}
            if "exp" in names and names & {"square", "pow", "mul"} and not names & logits:
                self.divergences.append((Place(node.site), name_of_right_side(Place(node.site))))
        elif node.op.name in ("mean", "sum") and root is not None and root.array.size == 1 and root.array.item() < 0:
            names = {op_name(each) for each in nodes_of(node)}
            if {"log_softmax", "gather"} <= names and not names & {"neg", "sub_from", "mean_nll", *LOSS_OPS}:
                self.likelihoods.append(Place(node.site))

    def finish(self) -> None:
        passes = min(self.facts.iteration, MAX_SIGNED + 1)
        if len(self.divergences) == passes >= 4:
            place, name = self.divergences[0]
            problem = f"{name} is subtracted from the loss: it is made large, without a limit"
            self.report("negated-loss", place, name, problem, f"add it: loss + {name}", passes)
        if len(self.likelihoods) == passes >= 4:
            problem = (
                "the loss is a mean of logarithms of probabilities, and negative: making it small makes the right "
            )
            problem += "classes unlikely"
            self.report("negated-loss", self.likelihoods[0], "loss", problem, "put a minus before it", passes)


def nodes_of(node: Operand) -> list[Operand]:
    """Return the nodes behind one, the nearest first, up to a number."""
    found: list[Operand] = []
    queue = [node]
    while queue and len(found) < MAX_WALKED:
        each = queue.pop(0)
        if isinstance(each, Node) and all(each is not known for known in found):
            found.append(each)
            queue += each.parents
    return found


def name_of_right_side(place: Place) -> str:
    """Return the text to the right of the minus in a line."""
    differences = [node for node in nodes_at(place, ast.BinOp) if isinstance(node.op, ast.Sub)]
    return text_of(differences[0].right) if differences else "the divergence"
