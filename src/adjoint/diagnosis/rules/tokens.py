"""Rules on padded sequences of tokens: padding that is learned, attended to, or that stands for a real class."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import Backward, ModuleCall, caller_place, distinct_values
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.frames import find_library_call
from adjoint.diagnosis.watch.library_calls import ATTENTIONS, LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import MODULE_CALLS
from adjoint.nn.layers.embedding import Embedding
from adjoint.nn.module.module import Module

MIN_TABLE = 8  # vectors
MIN_LENGTHS = 3  # of sequences that end with the same number
MAX_KEPT = 4  # inputs of embeddings in a pass
MIN_PADDED_SHARE = 0.1  # of the targets
MIN_PADDED_ROWS = 0.3
LEAST_SCORE = -1e4  # of a key that a mask leaves out
LEAST_WEIGHT = 1e-6  # of one that it does not


class TokenRule(WatchRule):
    """A rule that knows the tokens which embeddings got since the last backward pass."""

    modules: tuple[type[Module], ...] = (Embedding,)
    max_passes = 4

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.tokens: list[tuple[Embedding, Array]] = []

    def enter_module(self, call: ModuleCall) -> None:
        if not isinstance(call.module, Embedding) or not call.is_recording or self.facts.iteration > 3:
            return
        ids = call.tensors()
        if ids and is_array(ids[0]) and len(self.tokens) < MAX_KEPT:
            self.tokens.append((call.module, ids[0].array))

    def begin_backward(self, backward: Backward) -> None:
        self.tokens = []

    def find_padded(self, length: int = 0) -> tuple[Embedding, Array, int] | None:
        """Return an embedding, its padded tokens (of `length` steps if given), and the number of the padding."""
        for module, ids in self.tokens:
            padding = find_padding(module, ids)
            if padding is not None and length in (0, ids.shape[1]):
                return module, ids, padding
        return None


class OneIndex(TokenRule):
    """An embedding that gets one index alone, for all steps and samples."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.counts: dict[int, tuple[Embedding, set[int], int]] = {}  # the indices that each got, and its passes

    def begin_backward(self, backward: Backward) -> None:
        for module, ids in self.tokens:
            _, seen, count = self.counts.get(id(module), (module, set(), 0))
            is_one = ids.size >= MIN_LENGTHS and (ids == ids.flat[0]).all()
            self.counts[id(module)] = module, seen | ({int(ids.flat[0])} if is_one else {0, 1}), count + 1
        super().begin_backward(backward)

    def finish(self) -> None:
        for module, seen, count in self.counts.values():
            if len(seen) == 1 and count >= MIN_LENGTHS and module.num_embeddings >= MIN_TABLE:
                name = self.facts.names.name_of_module(module)
                problem = f"{name} has {module.num_embeddings} vectors, and gets index {min(seen)} alone, "
                problem += f"in all {count} passes"
                place = self.facts.names.origin_of_module(module)
                advice = "look at how its indices are made: torch.arange(T)"
                self.report("constant-input", place, name, problem, advice, count)


class PaddingIndex(TokenRule):
    """An embedding whose padding_idx is another number than that with which its tokens end."""

    def begin_backward(self, backward: Backward) -> None:
        for module, ids in self.tokens:
            told = module.padding_idx
            if told is None or ids.ndim != 2 or min(ids.shape) < 4 or self.facts.has_found("padding-index"):
                continue
            values, counts = np.unique(ids[:, -1], return_counts=True)
            value = int(values[counts.argmax()])
            run = np.cumprod((ids == value)[:, ::-1], axis=1).sum(axis=1)
            is_padding = run.sum() == (ids == value).sum() and len(set(run.tolist())) >= MIN_LENGTHS
            if value != told and is_padding and (run > 0).mean() >= MIN_PADDED_ROWS and run.mean() >= 1:
                name = self.facts.names.name_of_module(module)
                problem = f"the tokens {ids.shape} of {name} end with {value}, and its padding_idx is {told}: the "
                problem += "padding is trained as a token"
                place = self.facts.names.origin_of_module(module)
                self.report("padding-index", place, name, problem, f"padding_idx={value}", value)
        super().begin_backward(backward)


def find_padding(module: Embedding, ids: Array) -> int | None:
    """Return the number with which many rows of tokens (N, T) end, and that stands nowhere else."""
    if ids.ndim != 2 or min(ids.shape) < 4:
        return None
    values, counts = np.unique(ids[:, -1], return_counts=True)
    value = int(values[counts.argmax()]) if module.padding_idx is None else module.padding_idx
    run = np.cumprod((ids == value)[:, ::-1], axis=1).sum(axis=1)
    is_padding = run.sum() == (ids == value).sum() and len(set(run.tolist())) >= 2
    is_told = module.padding_idx is not None and (run > 0).sum() >= 2
    is_frequent = (run > 0).mean() >= MIN_PADDED_ROWS and run.mean() >= 1
    return value if is_padding and (is_told or is_frequent) else None


class PaddingInLoss(TokenRule):
    """Padding that counts as a class of its own in the loss."""

    def see_call(self, call: LibraryCall) -> None:
        if call.name not in ("cross_entropy", "nll_loss") or call.arguments.get("reduction") == "none":
            return
        x, target = call.tensor("input"), call.tensor("target")
        padded = self.find_padded()
        if x is None or target is None or padded is None or target.array.dtype.kind not in "iu":
            return
        module, ids, padding = padded
        weight, y = call.tensor("weight"), target.array
        classes = x.array.shape[1] if x.array.ndim > 1 else 0
        if y.size < ids.shape[0] * 2:
            return
        if classes != module.num_embeddings:
            self._check_labels(call, y, ids == padding)
            return
        share = float((y == padding).mean())
        is_left_out = call.arguments.get("ignore_index") == padding or (
            weight is not None and padding < weight.array.size and weight.array[padding] == 0
        )
        if share >= MIN_PADDED_SHARE and not is_left_out:
            self._report(call, padding, f"{share:.0%}", "the padding")

    def _report(self, call: LibraryCall, label: int, share: str, what: str) -> None:
        """Report targets that are padding, at the line that made the loss if that is a module."""
        module = self.facts.module()
        root = None if module is None or next(module.children(), None) else self.facts.names.roots.get(id(module))
        made = None if root is None or any(True for _ in root.module.parameters()) else root.made
        problem = f"{share} of the targets of {call.name} are {label}, {what}: the loss counts them"
        name = f"{call.name}(…" if made is None or module is None else f"nn.{type(module).__name__}("
        advice = f"{name}{', ' if made is None else ''}ignore_index={label})"
        self.report("padding-in-loss", made or call.place, "target", problem, advice, share)

    def _check_labels(self, call: LibraryCall, y: Array, is_padding: Array) -> None:
        """Look for one label that all padded tokens have, and no other, in the labels of each token."""
        if y.size != is_padding.size or self.facts.iteration < 1:
            return
        weight = call.tensor("weight")
        for places in (is_padding.ravel(), is_padding.T.ravel()):
            labels = distinct_values(y.ravel()[places])
            label = int(labels[0]) if len(labels) == 1 else -1
            is_left_out = call.arguments.get("ignore_index") == label or (
                weight is not None and not weight.array[label]
            )
            if label >= 0 and not is_left_out and label not in y.ravel()[~places] and places.mean() >= MIN_PADDED_SHARE:
                self._report(call, label, f"{places.mean():.0%}", "the label of the padding")
                return


class PaddingInAttention(TokenRule):
    """Attention to the padding: no mask of keys, or one that keeps the padding and leaves out the tokens."""

    ops = frozenset({"softmax", "mul"})

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        """Look at the weights that softmax, or a mask of 0 and 1, gives to the padding."""
        if op.name == "mul":
            self._check_product(inputs)
            return
        axis = (getattr(out.node, "params", None) or {}).get("axis")
        if axis is None or not self.tokens or out.array.ndim < 2 or find_library_call(*ATTENTIONS) is not None:
            return
        weights = np.moveaxis(out.array, axis, -1)
        made = next((made for made in self.facts.flow.makers_behind(inputs[0]) if made.op == "where"), None)
        place = caller_place() if made is None else made.place
        self._check_used(np.asarray(weights > LEAST_WEIGHT), "softmax", place)

    def _check_product(self, inputs: Operands) -> None:
        """Look at what is left of the vectors of tokens (N, T, D) that a mask (N, T, 1) multiplies."""
        for x, mask in (inputs[:2], inputs[1::-1]) if self.tokens else ():
            if not is_array(x) or not is_array(mask) or x.node is None or x.array.ndim != 3 or mask.array.ndim != 3:
                continue
            array = mask.array[..., 0]
            if mask.node is None and array.shape == x.array.shape[:2] and ((array == 0) | (array == 1)).all():
                made = self.facts.flow.maker_past_moves(mask)
                self._check_used(array != 0, "the product", caller_place() if made is None else made.place)

    def _check_used(self, used: Array, name: str, place: Place) -> None:
        """Report weights (N, …, T) that are positive for the padding, and for nothing else."""
        padded = self.find_padded(used.shape[-1])
        if padded is None or used.size % padded[1].size or self.facts.has_found("mask-inverted"):
            return
        ids, padding = padded[1:]
        is_padding = np.asarray(ids == padding)
        rows = is_padding.any(axis=1)
        is_used = np.asarray(used.reshape(len(ids), -1, ids.shape[1]).any(axis=1))
        if rows.sum() >= 2 and np.array_equal(is_used[rows], is_padding[rows]):
            problem = f"the mask of the scores is inverted: {name} gives weight to the padding alone, "
            problem += f"{is_padding.mean():.0%} of the tokens {ids.shape}"
            advice = f"invert the mask: leave out where ids == {padding}"
            self.report("mask-inverted", place, f"the mask of {name}", problem, advice, f"{is_padding.mean():.0%}")

    def see_call(self, call: LibraryCall) -> None:
        key = call.tensor("key")
        if not call.is_attention or key is None or not self.tokens or self.facts.iteration > 2:
            return
        mask = call.tensor("key_padding_mask")
        is_free = call.tensor("attn_mask") is None and not call.arguments.get("is_causal")
        for length in {*key.array.shape[:-1][-3:]}:
            padded = self.find_padded(length)
            if padded is None or padded[1].shape[0] not in key.array.shape:
                continue
            _, ids, padding = padded
            module, place = self.facts.module(), call.place
            allowed = call.tensor("attn_mask")
            if allowed is not None and allowed.array.ndim > 2 and mask is None:
                used = allowed.array > LEAST_SCORE if allowed.array.dtype != bool else allowed.array
                if allowed.array.dtype == bool and not call.name.startswith("scaled"):
                    used = ~used
                self._check_used(used, call.name, place)
            name = "attention" if module is None else self.facts.names.name_of_module(module)
            if mask is None and is_free:
                share = float((ids == padding).mean())
                problem = (
                    f"{name} attends to the padding, {share:.0%} of the tokens {ids.shape}: it gets no mask of keys"
                )
                advice = f"give it a mask: src_key_padding_mask=ids == {padding} (key_padding_mask of attention)"
                self.report("missing-padding-mask", place, name, problem, advice, f"{share:.0%}")
            elif mask is not None and np.array_equal(left_out(mask.array), ids != padding):
                problem = f"the mask of keys of {name} is True for the tokens, which leaves out all but the padding"
                self.report("mask-inverted", place, name, problem, f"invert it: ids == {padding}", tuple(mask.shape))
            return


def left_out(mask: Array) -> Array:
    """Return which keys a mask leaves out: one of truths, or one that is added, as layers make of it."""
    return mask if mask.dtype == bool else mask < LEAST_SCORE


class PaddedMean(TokenRule):
    """A mean or maximum over the steps of padded sequences, padding included."""

    ops = frozenset({"mean", "amax", "max", "max_pair"})
    max_passes = 3

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if not self.tokens or not isinstance(x, Tensor) or x.array.ndim != 3 or out.array.ndim not in (2, 3):
            return
        padded = self.find_padded(x.array.shape[1])
        if x.node is None or padded is None or x.array.shape[:2] != padded[1].shape or find_library_call("forward"):
            return
        samples, _, width = x.array.shape
        is_over_time = out.array.shape in ((samples, width), (samples, 1, width))
        masked = self.facts.flow.maker(x)
        is_masked = masked is not None and masked.op in ("mul", "where") and masked.function not in MODULE_CALLS
        if not is_over_time or (is_masked and op.name != "mean"):  # a mean counts the steps that are 0
            return
        if any(each.op in ("softmax", "attention") for each in self.facts.flow.makers_behind(x)):
            return  # attention leaves padding out, or another rule tells
        _, ids, padding = padded
        share = float((ids == padding).mean())
        name = "mean" if op.name == "mean" else "max"
        problem = f"{name} over the steps of {tuple(x.shape)} counts the padding, {share:.0%} of them"
        advice = "(x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True) with mask = ids != padding"
        self.report("padding-in-mean", caller_place(), name, problem, advice, f"{share:.0%}")


class PaddingAsToken(TokenRule):
    """A token with the number of the padding: its row of the embedding stays 0 and is not trained."""

    max_passes = 6

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.counts: dict[int, tuple[Embedding, int, int, int]] = {}  # inner paddings, paddings, tokens

    def enter_module(self, call: ModuleCall) -> None:
        module = call.module
        if not isinstance(module, Embedding) or module.padding_idx is None or self.facts.iteration > 5:
            return
        ids = next(iter(call.tensors()), None)
        if ids is None or not is_array(ids) or not call.is_recording:
            return
        is_padding = ids.array == module.padding_idx
        inner = int(is_padding.sum())
        if ids.array.ndim >= 2:
            from_left = np.cumprod(is_padding, axis=-1)
            from_right = np.cumprod(is_padding[..., ::-1], axis=-1)
            inner -= int(from_left.sum() + from_right.sum())
        _, before, paddings, tokens = self.counts.get(id(module), (module, 0, 0, 0))
        self.counts[id(module)] = module, before + inner, paddings + int(is_padding.sum()), tokens + ids.array.size

    def finish(self) -> None:
        for module, inner, paddings, tokens in self.counts.values():
            usual = tokens / module.num_embeddings  # of each number, if all are as frequent
            if tokens < 32 or inner < max(3, 0.5 * usual) or inner < 0.5 * paddings or inner > 3 * usual:
                continue
            name = self.facts.names.name_of_module(module)
            number = module.padding_idx
            problem = f"{number} is the padding_idx of {name}, and {inner} of {tokens} inputs are {number}, among all "
            problem += "the others: its row stays 0 and gets no gradient"
            advice = f"leave out padding_idx={number}, or count the real ones from {number + 1 if number == 0 else 0}"
            self.report("padding-is-class", self.facts.names.origin_of_module(module), name, problem, advice, inner)
