"""Rules on masks and positions: the future that a language model sees, masks that are added as 0 and 1."""

from __future__ import annotations

import weakref

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.tensor.mutation_log import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Operands
from adjoint.diagnosis.findings import Finding, Place
from adjoint.diagnosis.rules.tokens import TokenRule
from adjoint.diagnosis.watch.events import Backward, ModuleCall, caller_place, distinct_values
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.nn.layers.attention import MultiheadAttention
from adjoint.nn.layers.convolution import Conv1d
from adjoint.nn.layers.embedding import Embedding
from adjoint.nn.layers.recurrent import RNNBase

MIN_STEPS = 4  # of a sequence
MAX_FREQUENCY = 50  # radians in a step


class AttentionMask(WatchRule):
    """A mask of 0 and 1 that is added to the scores, or one that leaves only the future."""

    max_passes = 3

    def see_call(self, call: LibraryCall) -> None:
        mask = call.tensor("attn_mask")
        if not call.is_attention or mask is None or mask.array.ndim < 2 or self.facts.iteration > 2:
            return
        allowed = find_allowed(call, mask.array)
        made = self.facts.flow.maker(mask)
        place = call.place if made is None else made.place
        name = call.name if call.name.startswith("scaled") else "attn_mask"
        if allowed is None:
            problem = f"attn_mask {tuple(mask.shape)} of 0 and 1 is added to the scores: it leaves out no key"
            advice = "a mask of truths (True leaves a key out in MultiheadAttention), or -inf in place of the 0"
            self.report("mask-added", call.place, name, problem, advice, tuple(mask.shape))
        elif allowed.shape[0] == allowed.shape[1] >= 3 and is_one_sided(allowed.T):
            problem = f"attn_mask {tuple(mask.shape)} lets each query see only itself and the future"
            advice = "transpose the mask, or invert it: MultiheadAttention leaves out where it is True, "
            advice += "scaled_dot_product_attention where it is False"
            self.report("mask-inverted", place, name, problem, advice, tuple(mask.shape))


def find_allowed(call: LibraryCall, mask: Array) -> Array | None:
    """Return which keys a mask leaves to each query (L, S); None for a mask of 0 and 1 that is added."""
    mask = mask.reshape(-1, *mask.shape[-2:])[0]
    if mask.dtype == bool:
        return mask if call.name.startswith("scaled") else ~mask
    if set(distinct_values(mask).tolist()) == {0.0, 1.0}:
        return None
    return mask > -1e4


def is_one_sided(allowed: Array) -> bool:
    """Return whether each query sees some of the steps before it, and none after it."""
    return bool(allowed.any() and not np.triu(allowed, 1).any() and np.tril(allowed, -1).any())


class FutureTokens(TokenRule):
    """A model that gets the token which it shall predict: attention without a causal mask, or targets as inputs."""

    ops = frozenset({"softmax"})
    modules = (Embedding, RNNBase, Conv1d)
    max_passes = 3

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.open_places: list[tuple[Place, str, int]] = []  # attention that sees all steps
        self.is_masked = False  # some attention is

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        """See weights of attention (…, T, T) that a mask of the user's own keeps from the future."""
        weights = out.array
        if weights.ndim > 2 and weights.shape[-1] == weights.shape[-2] >= MIN_STEPS and not self.is_masked:
            first = weights.reshape(-1, *weights.shape[-2:])[0]
            self.is_masked = not np.triu(first, 1).any() and bool(np.tril(first, -1).any())

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if isinstance(call.module, Conv1d) and call.is_recording and self.facts.iteration < 3:
            self._note_convolution(call.module, call, output)
        if isinstance(call.module, RNNBase) and call.is_recording and self.facts.iteration < 3:
            x = next(iter(call.tensors()), None)
            if call.module.bidirectional and x is not None and x.array.ndim == 3:
                name = self.facts.names.name_of_module(call.module)
                self.open_places.append((call.place or caller_place(), name, x.array.shape[call.module.batch_first]))
            elif x is not None:
                self.is_masked = True

    def _note_convolution(self, module: Conv1d, call: ModuleCall, output: Operand) -> None:
        """Note a convolution that is padded on both sides, so that each step sees those after it."""
        x = next(iter(call.tensors()), None)
        padding = module.padding if isinstance(module.padding, str) else module.padding[0]
        if x is not None and padding and is_array(output) and output.array.shape[-1] == x.array.shape[-1] > MIN_STEPS:
            name = self.facts.names.name_of_module(module)
            place = self.facts.names.origin_of_module(module) or call.place or caller_place()
            self.open_places.append((place, name, x.array.shape[-1]))

    def see_call(self, call: LibraryCall) -> None:
        if self.facts.iteration > 2:
            return
        key = call.tensor("key")
        if key is not None and call.is_attention:
            if call.tensor("attn_mask") is not None or call.arguments.get("is_causal"):
                self.is_masked = True
            else:
                module = self.facts.module()
                name = call.name if module is None else self.facts.names.name_of_module(module)
                # heads are before the steps, or the batch after them
                in_parts = call.name.startswith("scaled") or call.arguments.get("batch_first")
                self.open_places.append((call.place, name, key.array.shape[-2 if in_parts else 0]))
        elif call.name == "cross_entropy":
            self._compare(call)

    def _compare(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if x is None or target is None or target.array.dtype.kind not in "iu" or not self.tokens:
            return
        module, ids = next((each for each in reversed(self.tokens) if each[1].ndim == 2), self.tokens[-1])
        if ids.ndim != 2 or ids.shape[1] < MIN_STEPS or target.array.size != ids.size or np.ptp(ids) < 2:
            return
        if x.array.ndim < 2 or x.array.shape[1] != module.num_embeddings:
            return
        y = target.array.reshape(ids.shape)
        if self.is_masked and np.array_equal(ids, y):
            problem = (
                f"the targets of cross_entropy are the tokens {ids.shape} that the model gets: each predicts itself"
            )
            advice = "predict the next token: inputs ids[:, :-1], targets ids[:, 1:]"
            is_same = owner(target.array) is owner(ids)
            place = call.place if is_same else self._find_maker(target, call.place)
            self.report("targets-not-shifted", place, "target", problem, advice, ids.shape)
        elif np.array_equal(y[:, 1:], ids[:, :-1]) and self.is_masked and not np.array_equal(y, ids):
            problem = f"the targets of cross_entropy are the tokens {ids.shape} before those that the model gets: it "
            problem += "has seen each already"
            advice = "predict the next token: inputs ids[:, :-1], targets ids[:, 1:]"
            place = self._find_maker(target, call.place)
            self.report("targets-not-shifted", place, "target", problem, advice, ids.shape)
        elif np.array_equal(y[:, :-1], ids[:, 1:]) and not self.is_masked:
            for place, name, steps in self.open_places:
                if steps == ids.shape[1]:
                    problem = f"the targets are the next tokens of the input {ids.shape}, and {name} sees them: it "
                    problem += "attends to all steps"
                    is_padded = "Conv1d" in place.text
                    problem = (
                        problem.replace("attends to all steps", "is padded on both sides") if is_padded else problem
                    )
                    advice = (
                        "F.pad(x, (kernel_size - 1, 0)) before it, and no padding"
                        if is_padded
                        else "give it a causal mask: nn.Transformer.generate_square_subsequent_mask(T), is_causal=True"
                    )
                    self.report("future-visible", place, name, problem, advice, ids.shape)
                    break

    def begin_backward(self, backward: Backward) -> None:
        super().begin_backward(backward)
        self.open_places, self.is_masked = [], False

    def _find_maker(self, target: Tensor, place: Place) -> Place:
        """Return the line that made the targets before that of the loss; that of the loss where there is none."""
        made = self.facts.flow.maker(target)
        while made is not None and made.place == place and made.tensors:
            made = self.facts.flow.maker(made.tensors[0])
        return made.place if made is not None and made.tensors else place


class PositionByBatch(WatchRule):
    """A table of positions that is read by the number of the sample, where the batch comes first."""

    ops = frozenset({"add"})
    modules = (MultiheadAttention,)
    max_passes = 3

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.found: tuple[weakref.ref[Tensor], Finding] | None = None

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        module = self.facts.module()
        if module is None or self.facts.iteration > 2 or out.array.ndim != 3:
            return
        for x, table in (inputs[:2], inputs[1::-1]):
            if not (is_array(x) and is_array(table)) or table.array.ndim != 3 or table.array.shape[1] != 1:
                continue
            batch, steps, size = x.array.shape if x.array.ndim == 3 else (0, 0, 0)
            if table.array.shape != (batch, 1, size) or min(batch, steps) < 2:
                continue
            own = [*module._buffers.items(), *module._parameters.items()]
            key = next((k for k, b in own if b is not None and owner(b.array) is owner(table.array)), None)
            if key is None or own[0][1] is table:
                continue
            name = f"{self.facts.names.name_of_module(module)}.{key}"
            problem = (
                f"{name} is read by the number of the sample: {table.array.shape} is added to {x.array.shape}, so "
            )
            problem += f"all {steps} steps of a sample get the same position"
            advice = f"read it by the step: self.{key}[:x.size(1)] of shape (T, D), or put the time first"
            finding = Finding("position-by-batch", caller_place(), name, str(table.array.shape), problem, advice)
            self.found = weakref.ref(out), finding
            return

    def enter_module(self, call: ModuleCall) -> None:
        if self.found is None or not isinstance(call.module, MultiheadAttention):
            return
        if call.module.batch_first and not self.facts.has_found("position-by-batch"):
            self.facts.report.add(self.found[1])

    def begin_backward(self, backward: Backward) -> None:
        self.found = None


class PositionFrequencies(WatchRule):
    """A table of sines of positions, whose frequencies grow where they were to fall: neighbours look unlike."""

    ops = frozenset({"sin", "cos"})
    max_passes = 1

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        flow = self.facts.flow
        made = flow.maker_past_moves(inputs[0])
        if made is None or made.op != "mul" or len(made.tensors) != 2 or self.facts.has_found("position-frequencies"):
            return
        for positions, rates in (made.tensors, made.tensors[::-1]):
            source = flow.maker_past_moves(rates)
            steps = positions.array.ravel()
            is_count = steps.size >= MIN_STEPS and np.array_equal(steps, np.arange(steps.size))
            if source is None or source.op not in ("exp", "pow") or not is_count or not source.out.array.size:
                continue
            highest = float(source.out.array.max())
            if highest >= MAX_FREQUENCY and float(source.out.array.min()) >= 1:
                problem = (
                    f"the frequencies of {op.name} of the positions go from 1 up to {highest:.4g}: steps beside each "
                )
                problem += "other have codes that are nothing like"
                advice = "a minus: torch.exp(-math.log(10000.0) / d * torch.arange(0, d, 2))"
                self.report("position-frequencies", source.place, op.name, problem, advice, f"{highest:.4g}")
                return
