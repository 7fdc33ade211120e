"""Rules on probabilities: softmax or sigmoid applied twice, and softmax over the wrong dimension."""

from __future__ import annotations

import numpy as np

from adjoint.core.graph.node import Leaf
from adjoint.core.graph.source_location import Site, library_files
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands, Shape
from adjoint.diagnosis.findings import Place, place_of_instruction
from adjoint.diagnosis.watch.events import Backward, OptimizerStep, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array, op_name, producer_of
from adjoint.diagnosis.watch.frames import find_library_call
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.diagnosis.watch.source_lines import find_only_call
from adjoint.diagnosis.watch.value_flow import Made
from adjoint.nn.containers.containers import Sequential

NORMALIZED = frozenset({"softmax", "log_softmax"})
OPS_OF_LOGITS = frozenset({"logit_entropy", "logsigmoid", "abs"})  # in binary_cross_entropy_with_logits
AFFINE = frozenset({"add", "sub", "mul", "div", "neg"})
LIMITED = frozenset({"sigmoid", "tanh", "softmax", "hardtanh", "clamp_range", "atan", "hardsigmoid"})
MIN_NUMBERS = 16
MAX_MASKED = 16  # weights of attention that are kept until the backward pass
MIN_PART = 0.1  # of weights or rows
LINEAR = frozenset({"neg", "mean", "sum", "index", "gather"})


class RepeatedActivation(WatchRule):
    """A loss that applies softmax or sigmoid itself, to what went through one already."""

    ops = frozenset({"log_softmax", "softmax", "logsumexp", "softplus", "sigmoid", *OPS_OF_LOGITS})
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.over_one: dict[Site, tuple[Place, Shape]] = {}  # lines whose softmax was over one value, and of what
        self.over_several: set[Site] = set()  # and those of others, as of memories that grow

    def before_step(self, step: OptimizerStep) -> None:
        self.finish()

    def finish(self) -> None:
        for site in self.over_one.keys() - self.over_several:
            place, shape = self.over_one[site]
            problem = f"softmax of {shape} is over one value: the result is 1, whatever it is"
            advice = "use sigmoid for one output, or give one output for each class"
            if len(shape) > 2:  # scores over steps or places, of each sample
                dim = max(range(1, len(shape)), key=shape.__getitem__)
                advice = f"softmax over the dimension of the {shape[dim]} that are compared: dim={dim}"
            self.report("one-class", place, "softmax", problem, advice, 1)
        self.over_one.clear()

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        made = producer_of(inputs[0])
        name = op_name(made)
        if op.name in OPS_OF_LOGITS:
            call = find_library_call("binary_cross_entropy_with_logits")
            if call is not None and name in {"sigmoid", "softmax", "relu"}:
                self._report_sigmoid(made, name)
            elif (
                call is None
                and op.name == "logsigmoid"
                and name == "sigmoid"
                and not library_files[made.code.co_filename]
            ):
                self._report_twice(made, name, op.name)
            elif call is not None and made is not None and self._is_probability(made, inputs[0]):
                self._report_sigmoid(made, "sigmoid")
            return
        if op.name in ("softplus", "sigmoid"):
            if name in ("sigmoid", "softmax") and made is not None and not library_files[made.code.co_filename]:
                self._report_twice(made, name, op.name)
            return
        loss = find_library_call("cross_entropy") if op.name == "log_softmax" else None
        if op.name == "softmax" and out.node is not None:
            place = caller_place()
            if out.array.shape[out_params(out)["axis"]] == 1:
                self.over_one[place.site] = place, out.array.shape
            else:
                self.over_several.add(place.site)
        if name not in {*NORMALIZED, "sigmoid", "relu"}:
            if loss is not None and made is not None and isinstance(inputs[0], Tensor):
                array, axis = inputs[0].array, out_params(out)["axis"]
                if is_distribution(array, axis) or (op_name(made) == "log" and is_distribution(np.exp(array), axis)):
                    self._report_softmax(made, "softmax", inputs[0])
            return
        if library_files[made.code.co_filename]:
            return
        if loss is not None or (name == "relu" and op.name == "log_softmax"):
            self._report_softmax(made, name, inputs[0], "cross_entropy" if loss is not None else "log_softmax")
        elif name in NORMALIZED and (op.name == "logsumexp" or made.params == out_params(out)):
            self._report_twice(made, name, op.name)

    def _is_probability(self, made: Operand, x: Operand) -> bool:
        """Return whether numbers from 0 to 1 are a quotient or a shifted multiple of what has limits."""
        if not is_array(x):
            return False
        if op_name(made) == "div" and _is_sigmoid(made, x):
            return True
        if x.array.size < MIN_NUMBERS or x.array.min() < 0 or x.array.max() > 1:
            return False
        while op_name(made) in AFFINE:
            below = [parent for parent in made.parents if parent is not None and type(parent) is not Leaf]
            if len(below) != 1:
                return False
            made = producer_of(below[0])
        return op_name(made) in LIMITED

    def _report_softmax(self, made: Operand, name: str, x: Tensor, user: str = "cross_entropy") -> None:
        layer = {"relu": "ReLU"}.get(name, name)
        self.report(
            f"{layer.lower()}-before-cross-entropy",
            self._find_layer(made, name) or place_of_node(made),
            layer,
            f"{user} at {caller_place().site.describe_briefly()} gets the result of {layer}, of shape "
            f"{tuple(x.shape)}"
            + (", and takes log_softmax itself" if user == "cross_entropy" else ": no score is below 0"),
            f"give {user} the logits: leave out this {layer}"
            + ("" if name == "relu" else ", or use it only to read probabilities"),
            tuple(x.shape),
        )

    def _find_layer(self, made: Operand, name: str) -> Place | None:
        """Return the line that made the layer which ends an `nn.Sequential`, where the function has no line of its own.

        Of layers in a list that line is the only call of their class in the file.
        """
        if name in place_of_node(made).text.lower():
            return None
        names = self.facts.names
        for root in names.roots.values():
            for part in root.module.modules():
                last = next(reversed(part._modules.values()), None) if isinstance(part, Sequential) else None
                if last is None or type(last).__name__.lower() != name:
                    continue
                place = names.origin_of_module(last)
                return (
                    place if place is None or type(last).__name__ in place.text else find_only_call(place, type(last))
                )
        return None

    def _report_sigmoid(self, made: Operand, name: str) -> None:
        self.report(
            f"{name}-before-bce-with-logits",
            self._find_layer(made, name) or place_of_node(made),
            name,
            f"binary_cross_entropy_with_logits at {caller_place().site.describe_briefly()} gets the result of {name}, "
            "and takes the sigmoid itself",
            f"leave out this {name}" + (", or use binary_cross_entropy" if name == "sigmoid" else ""),
        )

    def _report_twice(self, made: Operand, first: str, second: str) -> None:
        self.report(
            f"{'sigmoid' if second in ('softplus', 'sigmoid', 'logsigmoid') else 'softmax'}-twice",
            place_of_node(made),
            first,
            f"{second} at {caller_place().site.describe_briefly()} is taken of the result of {first}",
            f"leave out one of them: {second} needs logits",
        )


class HalfRange(WatchRule):
    """A probability that is the sigmoid of what a relu gave: it is never below one half."""

    ops = frozenset({"entropy"})  # of binary_cross_entropy
    max_passes = CHECKED_PASSES

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        made = producer_of(inputs[0])
        below: Operand = producer_of(made.parents[0]) if op_name(made) == "sigmoid" else None
        if op_name(below) == "relu" and not library_files[below.code.co_filename]:
            problem = (
                f"the probabilities {tuple(inputs[0].shape)} are the sigmoid of what this relu gives, which is never "
            )
            problem += "negative: none is below 0.5"
            advice = "leave out the relu before the sigmoid"
            self.report("relu-before-sigmoid", place_of_node(below), "relu", problem, advice, 0.5)


class SoftmaxForLabels(WatchRule):
    """A softmax, which sums to 1, where each label of several is 0 or 1 by itself."""

    ops = frozenset({"entropy"})  # of binary_cross_entropy
    max_passes = CHECKED_PASSES

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        made = producer_of(inputs[0])
        x, target = inputs[0], inputs[1]
        if (
            op_name(made) != "softmax"
            or not is_array(target)
            or x.array.ndim < 2
            or library_files[made.code.co_filename]
        ):
            return
        axis = (made.params or {}).get("axis", -1)
        sums = target.array.sum(axis=axis)
        if x.array.shape != target.array.shape or x.array.shape[axis] < 3 or np.allclose(sums, 1):
            return
        self.report(
            "softmax-for-labels",
            place_of_node(made),
            "softmax",
            f"softmax of {tuple(x.shape)} sums to 1, and the targets to {sums.min():g} to {sums.max():g}: labels that "
            "do not exclude each other",
            "sigmoid in place of softmax: binary_cross_entropy_with_logits of the logits",
            f"{sums.min():g} to {sums.max():g}",
        )


def _is_choice(made: Made) -> bool:
    """Return whether a product is with the one-hot vectors of classes."""
    masks = [x.array for x in made.tensors if x.node is None] if made.op == "mul" else []
    if len(masks) != 1 or len(made.tensors) != 2 or not masks[0].ndim:
        return False
    return bool(((masks[0] == 0) | (masks[0] == 1)).all() and (masks[0].sum(axis=-1) == 1).all())


class MissingLogarithm(WatchRule):
    """`nll_loss`, or the mean of what is picked, of something that is no logarithm of probabilities."""

    ops = frozenset({"mean_nll", "mean_weighted_nll"})
    max_passes = CHECKED_PASSES

    def begin_backward(self, backward: Backward) -> None:
        """Look for a loss that is the negative mean of the probabilities of the classes."""
        made = self.facts.flow.maker(backward.roots[0]) if len(backward.roots) == 1 else None
        is_negative = is_picked = is_probability = False
        while made is not None and (made.op in LINEAR or made.family == "movement" or _is_choice(made)):
            is_negative ^= made.op == "neg"
            is_picked |= made.op in ("index", "gather", "mul")
            made = self.facts.flow.maker(next(x for x in made.tensors if x.node is not None or len(made.tensors) == 1))
        if made is not None and made.op == "div" and made.out.array.ndim == 2:  # by hand
            is_probability = is_distribution(made.out.array, 1)
        is_probability |= made is not None and made.op == "softmax"
        if is_negative and is_picked and is_probability and backward.loss is not None:
            root: Operand = backward.roots[0].node
            problem = "the loss is the negative mean of probabilities of softmax, and not of their logarithms: a "
            problem += "sample that is predicted wrongly hardly counts"
            advice = "log_softmax in place of softmax, or cross_entropy of the logits"
            self.report("nll-without-log", place_of_node(root), "softmax", problem, advice, f"{backward.loss:.3g}")

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        made = producer_of(x)
        if not isinstance(x, Tensor) or not x.array.size or op_name(made) == "log_softmax":
            return
        greatest = float(x.array.max())
        if greatest > 1e-3:
            what = "probabilities of softmax" if op_name(made) == "softmax" else "values that are no log-probabilities"
            self.report(
                "nll-without-log",
                caller_place(),
                "nll_loss",
                f"nll_loss gets {what} (up to {greatest:.3g}; a log-probability is at most 0)",
                "use log_softmax before it, or cross_entropy of the logits",
                f"{greatest:.3g}",
            )


class DivergenceReduction(WatchRule):
    """`kl_div` with the mean over all elements, which is no divergence, or of what is no logarithm."""

    ops = frozenset({"xlogy"})
    max_passes = CHECKED_PASSES

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        call = find_library_call("kl_div")
        x = None if call is None else call.f_locals.get("input")
        if isinstance(x, Tensor) and x.node is not None and x.array.ndim and is_distribution(x.array, x.array.ndim - 1):
            self.report(
                "kl-without-log",
                caller_place(),
                "kl_div",
                f"kl_div gets probabilities as its input (up to {float(x.array.max()):.3g}), and takes logarithms",
                "log_softmax of the scores as the input; the target is of probabilities",
                tuple(x.shape),
            )
        if call is not None and call.f_locals.get("reduction") == "mean" and out.array.ndim > 1:
            n = out.array.size // out.array.shape[0]
            self.report(
                "wrong-reduction",
                caller_place(),
                "kl_div",
                f'kl_div with reduction="mean" divides by all {out.array.size} elements: {n} times too small',
                'use reduction="batchmean"',
                n,
            )


class LateMask(WatchRule):
    """A mask that is put into the result of softmax, and not into the scores: its weights sum to 1 no more."""

    ops = frozenset({"where", "mul"})
    max_passes = CHECKED_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.masked: list[tuple[Tensor, Place]] = []  # weights of attention of which some are 0

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if out.node is None or self.facts.has_found("mask-after-softmax"):
            return
        self._note_zeros(inputs, out)
        pairs = (inputs[1:3], inputs[2:0:-1], inputs[:2], inputs[1::-1])
        for weights, fill in pairs if op.name == "where" else ():
            value = fill.array if isinstance(fill, Tensor) else fill
            if op_name(producer_of(weights)) != "softmax" or getattr(value, "size", 1) != 1:
                continue
            value = value.item() if hasattr(value, "item") else value
            if not isinstance(weights, Tensor) or isinstance(value, (bool, str)) or float(value) > -1e3:
                continue
            problem = (
                f"{float(value):g} is put into the result of softmax {tuple(out.shape)}: it is no probability, and "
            )
            problem += "outweighs all others"
            advice = "mask the scores, and take the softmax after that"
            self.report("mask-after-softmax", caller_place(), "masked_fill", problem, advice, f"{float(value):g}")
            return

    def _note_zeros(self, inputs: Operands, out: Tensor) -> None:
        """Note weights of attention (…, T, T) of which a mask has made a part 0."""
        weights = next((x for x in inputs if op_name(producer_of(x)) == "softmax"), None)
        shape = out.array.shape
        masks = [x.array for x in inputs if isinstance(x, Tensor) and x.node is None and x.array.ndim >= 2]
        if not any(((mask == 0) | (mask == 1)).all() for mask in masks):  # the factors of dropout are larger
            return
        if not isinstance(weights, Tensor) or len(shape) < 3 or shape[-1] != shape[-2] or weights.shape != out.shape:
            return
        if len(self.masked) < MAX_MASKED and self.facts.flow.is_open:
            sums = out.array.sum(-1)
            if ((sums > 0) & (sums < 1 - 1e-3)).mean() > MIN_PART and (out.array == 0).mean() > MIN_PART:
                self.masked.append((out, caller_place()))

    def begin_backward(self, backward: Backward) -> None:
        masked, self.masked = self.masked, []
        for weights, place in masked:
            users = [user.op for user in self.facts.flow.users(weights)]
            if "bmm" in users and len(users) == 1:
                problem = f"a mask makes weights {tuple(weights.shape)} 0 after their softmax: the others sum to less "
                problem += "than 1, and what is masked has a part in them"
                advice = 'masked_fill(…, float("-inf")) of the scores, and the softmax after that'
                self.report("mask-after-softmax", place, "mask", problem, advice, tuple(weights.shape))


def is_distribution(array: Operand, axis: int) -> bool:
    """Return whether the numbers along an axis are probabilities that sum to 1, for several samples."""
    count = array.shape[axis]
    if count < 2 or array.size < 4 * count or array.dtype.kind != "f" or array.min() < 0:
        return False
    return bool(abs(array.sum(axis=axis) - 1).max() < 1e-4)


def out_params(out: Tensor) -> Operand:
    """Return the parameters of the op that made a tensor."""
    return getattr(out.node, "params", None)


def place_of_node(node: Operand) -> Place:
    """Return the user's line that recorded a node."""
    return place_of_instruction((node.code, node.instruction_offset))


def _is_sigmoid(quotient: Operand, x: Tensor) -> bool:
    """Return whether a quotient is 1 / (1 + exp(…)), written out."""
    if x.array.size == 0:
        return False
    below = [parent for parent in quotient.parents if op_name(parent) == "add"]
    has_exponential = any(op_name(p) == "exp" for add in below for p in add.parents)
    return has_exponential and bool(0 < x.array.min() <= x.array.max() < 1)
