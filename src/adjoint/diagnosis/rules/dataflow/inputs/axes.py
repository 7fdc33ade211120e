"""Rules on axes: channels that are time steps, the best of a batch, columns of all samples for each."""

from __future__ import annotations

import numpy as np

from adjoint.core.op.op import Op
from adjoint.core.tensor.mutation_log import owner
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.watch.events import Backward, ModuleCall, caller_place
from adjoint.diagnosis.watch.facts import Facts, address_of, is_array
from adjoint.diagnosis.watch.rule import CHECKED_PASSES, WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, Made
from adjoint.nn.layers.embedding import Embedding
from adjoint.nn.layers.normalization import BatchNorm1d
from adjoint.nn.layers.pooling import AvgPool1d, MaxPool1d
from adjoint.nn.layers.recurrent import RNNBase
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

FEATURES_LAST = frozenset({"linear", "embedding", "layer_norm", "addmm"})
MIN_ROWS = 3


class NormOverSteps(WatchRule):
    """Batch normalization, or pooling, of (N, T, C) as it is: each time step is taken for a channel."""

    modules = (BatchNorm1d, MaxPool1d, AvgPool1d)
    max_passes = FLOW_PASSES

    def enter_module(self, call: ModuleCall) -> None:
        x = next(iter(call.tensors()), None)
        if x is None or x.array.ndim != 3 or not self.facts.flow.is_open:
            return
        made = self.facts.flow.maker(x)
        while made is not None and made.op in ("relu", "gelu", "tanh", "dropout", "reshape") and made.tensors:
            made = self.facts.flow.maker(made.tensors[0])
        is_looked_up = made is not None and made.op == "index" and isinstance(made.tensors[0], Parameter)
        has_features = made is not None and made.out.array.shape[-1] == x.array.shape[-1]
        if made is not None and has_features and (is_looked_up or made.op in FEATURES_LAST):
            name = self.facts.names.name_of_module(call.module)
            steps, features = x.array.shape[1:]
            if not isinstance(call.module, BatchNorm1d):
                problem = (
                    f"{name} gets {tuple(x.shape)} with the {features} features last: it pools features of each step, "
                )
                problem += f"and not the {steps} steps"
                self.report("pool-over-features", caller_place(), name, problem, "transpose(1, 2) before it", features)
                return
            problem = (
                f"{name} gets {tuple(x.shape)} with the {features} features last: it normalizes each of the {steps} "
            )
            problem += "steps, and all features of it alike"
            place = self.facts.names.origin_of_module(call.module)
            advice = f"BatchNorm1d({features}) of h.transpose(1, 2), or LayerNorm({features})"
            self.report("norm-over-steps", place or call.place, name, problem, advice, steps)


class MixedSamples(WatchRule):
    """A mean over the samples of a batch that is added to each of them."""

    max_passes = 1

    def begin_backward(self, backward: Backward) -> None:
        for made in self.facts.flow.makers_behind(*backward.roots):
            if made.op == "mean" and made.out.node is not None:
                self._check_mean(made)

    def _check_mean(self, made: Made) -> None:
        x = made.tensors[0].array
        kept, shape = (1, *x.shape[1:]), made.out.array.shape
        if x.ndim < 3 or len(x) < 2 or shape not in (kept, kept[1:]) or made.out.array.size == x.size:
            return
        users = self.facts.flow.users_past_moves(made.out)
        if users and all(user.op == "add" and user.out.array.shape == x.shape for user in users):
            problem = f"the mean of {x.shape} over dimension 0 is that of the samples of a batch, and each sample gets "
            problem += "it: what it gives depends on the others"
            self.report("samples-mixed", made.place, "mean", problem, "a mean over another dimension", x.shape)


class BestOfBatch(WatchRule):
    """The best row of each class where classes and samples are as many, and the best of all scores as a prediction."""

    ops = frozenset({"argmax", "eq"})
    max_passes = CHECKED_PASSES * 4

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.single: list[tuple[Operand, tuple[int, ...], object]] = []  # an index of all scores, by its memory

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if op.name == "eq":
            self._check_comparison(inputs)
        elif is_array(x) and x.array.ndim == 1 and not out.array.ndim:
            source = self.facts.flow.maker(x) if self.facts.flow.is_open else None
            whole = source.tensors[0].array if source is not None and source.tensors else x.array.base
            shape = getattr(whole, "shape", ())
            if len(shape) == 2 and min(shape) > 1:
                self.single = [*self.single[-3:], (out.array, shape, caller_place())]
        elif is_array(x) and x.array.ndim == 2:
            self._check_rows(x, out)

    def _check_comparison(self, inputs: Operands) -> None:
        for one, other in (inputs[:2], inputs[1::-1]):
            if not is_array(one) or not is_array(other) or one.array.ndim or other.array.ndim != 1:
                continue
            known = next((each for each in self.single if each[0] is one.array), None)
            if known is not None and len(other.array) == known[1][0]:
                problem = f"argmax of {known[1]} without a dim is one index of all scores, which is compared with all "
                problem += f"{len(other.array)} labels"
                place: Operand = known[2]
                self.report("argmax-of-all", place, "argmax", problem, "argmax(dim=1)", known[1])

    def _check_rows(self, x: Tensor, out: Tensor) -> None:
        a = x.array
        rows, classes = a.shape
        is_one_hot = ((a == 0) | (a == 1)).all() and (a.sum(1) == 1).all()
        if rows != classes or rows < MIN_ROWS or not np.array_equal(out.array.reshape(-1), a.argmax(0)):
            return
        if np.array_equal(a.argmax(0), a.argmax(1)) or not (is_one_hot and not (a.sum(0) == 1).all()):
            return
        problem = (
            f"argmax of one-hot rows {tuple(a.shape)} is over dimension 0: it gives the first sample of each class, "
        )
        problem += "and not the class of each sample"
        self.report("argmax-dimension", caller_place(), "argmax", problem, "argmax(dim=1)", tuple(a.shape))


class AllColumns(WatchRule):
    """`q[:, actions]`, which gives each sample the columns of all samples."""

    ops = frozenset({"index"})
    max_passes = FLOW_PASSES

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        if not is_array(x) or x.array.ndim != 2 or out.node is None or len(inputs) != 2:
            return
        index, (rows, columns) = inputs[1], x.array.shape
        if not is_array(index) or index.array.ndim != 1 or index.array.dtype.kind != "i" or rows < MIN_ROWS:
            return
        if len(index.array) == rows != columns and out.array.shape == (rows, rows) and index.node is None:
            problem = (
                f"an index of {rows} columns of {tuple(x.shape)} gives {tuple(out.shape)}: each sample gets the values "
            )
            problem += "of the others' actions too"
            advice = "x.gather(1, index[:, None]).squeeze(1), or x[torch.arange(len(x)), index]"
            self.report("index-of-all-pairs", caller_place(), "index", problem, advice, tuple(out.shape))


class BestNextOfBatch(WatchRule):
    """The best value of each action over the batch, where samples and actions are as many."""

    ops = frozenset({"gather", "amax"})
    max_passes = FLOW_PASSES

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x, flow = inputs[0], self.facts.flow
        if not flow.is_open or not is_array(x) or x.array.ndim != 2 or x.node is not None:
            return
        rows, columns = x.array.shape
        made = flow.maker(x)
        if rows != columns or rows < MIN_ROWS or made is None or made.op not in FEATURES_LAST:
            return
        chosen = flow.maker(inputs[1]) if len(inputs) > 1 else None
        is_choice = op.name == "amax" or (chosen is not None and chosen.op == "argmax")
        best = out.array.reshape(-1)
        if is_choice and np.array_equal(best, x.array.max(0)) and not np.array_equal(best, x.array.max(1)):
            problem = (
                f"the max of {tuple(x.shape)} is over dimension 0, the batch: it gives the best sample of each action"
            )
            self.report("max-over-batch", caller_place(), "max", problem, "max(dim=1)", tuple(x.shape))


class TurnedBatch(WatchRule):
    """Samples whose order is reversed, where that of their time steps was meant, and rows repeated as others'."""

    ops = frozenset({"reshape"})
    modules = (RNNBase,)
    max_passes = FLOW_PASSES

    def enter_module(self, call: ModuleCall) -> None:
        x = next(iter(call.tensors()), None)
        made = self.facts.flow.maker(x) if x is not None and self.facts.flow.is_open else None
        if made is None or made.op != "flip" or not getattr(call.module, "batch_first", False) or x is None:
            return
        source = made.tensors[0].array
        if source.ndim == 3 and len(source) > 1 and np.array_equal(x.array, source[::-1]):
            problem = (
                f"flip of {tuple(x.shape)} reverses the {len(source)} samples, and not the {source.shape[1]} steps: "
            )
            problem += "each sample gets the sequence of another"
            self.report("batch-reversed", made.place, "flip", problem, "flip(1)", tuple(x.shape))

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        flow = self.facts.flow
        if not flow.is_open or out.array.ndim != 3 or out.node is None or min(out.array.shape) < 2:
            return
        made = flow.maker(inputs[0])
        while made is not None and made.function != "repeat" and made.family == "movement" and made.tensors:
            made = flow.maker(made.tensors[0])
        place, rows = None if made is None else made.place, out.array
        while made is not None and made.function == "repeat" and made.tensors:
            place, source = made.place, made.tensors[0].array
            made = flow.maker(made.tensors[0])
            is_all = source.ndim == 2 and source.shape == (rows.shape[0], rows.shape[2])
            if (
                is_all
                and not (rows == source[:, None]).all()
                and (rows[0, : len(source)] == source[: rows.shape[1]]).all()
            ):
                problem = (
                    f"repeat and view give {tuple(out.shape)}, whose steps are rows of {tuple(source.shape)} of other "
                )
                problem += "samples, one after another"
                advice = "z.unsqueeze(1).repeat(1, steps, 1), or repeat_interleave"
                self.report("rows-of-others", place, "repeat", problem, advice, tuple(out.shape))
                return


class MultipliedPositions(WatchRule):
    """Sines and cosines of positions that multiply what they were to be added to."""

    ops = frozenset({"mul"})
    max_passes = FLOW_PASSES

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        if out.node is None or len(inputs) != 2 or not all(is_array(x) for x in inputs):
            return
        for x, table in (inputs, inputs[::-1]):
            rows = table.array.reshape(-1, table.array.shape[-1]) if table.array.ndim > 1 else None
            if x.node is None or table.node is not None or rows is None or rows.shape[-1] < 4 or len(rows) < MIN_ROWS:
                continue
            is_start = not rows[0, ::2].any() and (rows[0, 1::2] == 1).all()  # the sines and cosines of position 0
            if is_start and np.abs(rows).max() <= 1 and rows[1:].any():
                problem = (
                    f"the sines and cosines {tuple(table.shape)} of positions multiply what they were to be added to: "
                )
                problem += "half of the first position is 0"
                self.report(
                    "positions-multiplied", caller_place(), "positions", problem, "x + positions", tuple(x.shape)
                )


class UnreadColumn(WatchRule):
    """Two embeddings that get the same column of the data, where another column is read by nobody."""

    modules = (Embedding,)
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.columns: dict[int, list[tuple[Module, Place]]] = {}  # by their address, the embeddings that get them
        self.whole: Operand = None

    def enter_module(self, call: ModuleCall) -> None:
        x = next(iter(call.tensors()), None)
        if x is not None and is_array(x) and x.array.ndim == 1 and call.is_recording:
            self.whole = owner(x.array)
            self.columns.setdefault(address_of(x), []).append((call.module, caller_place()))

    def begin_backward(self, backward: Backward) -> None:
        columns, self.columns = self.columns, {}
        if self.whole is None or self.whole.ndim != 2 or self.facts.iteration >= FLOW_PASSES:
            return
        first, step, count = self.whole.ctypes.data, self.whole.strides[1], self.whole.shape[1]
        places = {first + i * step: i for i in range(count)}
        read = {places.get(address_of(made.out), -1) for made in self.facts.flow.steps.values()}
        unread = sorted(set(range(count)) - read)
        twice = [(places[key], used) for key, used in columns.items() if key in places and len(used) > 1]
        if len(unread) == 1 and len(twice) == 1 and sum(map(len, columns.values())) == count:
            column, used = twice[0]
            name = self.facts.names.name_of_module(used[1][0])
            problem = f"{name} gets column {column} of {self.whole.shape}, as "
            problem += f"{self.facts.names.name_of_module(used[0][0])} does, and nobody reads column {unread[0]}"
            self.report("column-unread", used[1][1], name, problem, f"[:, {unread[0]}]", unread[0])
