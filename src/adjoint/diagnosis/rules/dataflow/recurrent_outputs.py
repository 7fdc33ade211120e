"""Rules on what a recurrent layer gives and gets: another dimension than time, padded steps, one direction of two."""

from __future__ import annotations

import ast
from collections import Counter

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.data.sampler import RandomSampler
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.tokens import find_padding
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import Backward, ModuleCall, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import nodes_at, nodes_in
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, Made
from adjoint.nn.layers.embedding import Embedding
from adjoint.nn.layers.recurrent import RNNBase
from adjoint.nn.layers.recurrent_cells import RNNCellBase
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

MIN_DETACHED = 3  # steps of a pass
CUTS = frozenset({"detach", "data"})


class RecurrentOutputs(WatchRule):
    """The last sequence for the last step, a step of the padding, or states of layers in the place of samples."""

    modules = (RNNBase, Embedding)
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.runs: list[tuple[RNNBase, Tensor, Tensor]] = []  # the layer, its outputs and its states
        self.padded: tuple[int, ...] = ()  # the shape of the tokens of this pass that end with padding

    def enter_module(self, call: ModuleCall) -> None:
        ids = call.tensors()
        if not isinstance(call.module, Embedding) or not ids or not is_array(ids[0]):
            return
        if find_padding(call.module, ids[0].array) is not None:
            self.padded = ids[0].array.shape

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        run = _find_run(call, output)
        if run is not None:
            self.runs.append(run)

    def begin_backward(self, backward: Backward) -> None:
        runs, padded = self.runs, self.padded
        self.runs, self.padded = [], ()
        for module, output, states in runs:
            for made in self.facts.flow.users(output):
                if made.op == "select":
                    self._check_step(module, output, made, padded)
                elif made.op == "slice":
                    for below in self.facts.flow.users(made.out):
                        if below.op == "select":
                            self._check_step(module, output, made, padded)
            for made in self.facts.flow.users(states):
                if made.op == "reshape":
                    self._check_states(module, states, made)
            if module.bidirectional and states.array.ndim == 3:
                self._check_directions(module, states)

    def _check_step(self, module: RNNBase, output: Tensor, made: Made, padded: tuple[int, ...]) -> None:
        position = find_position(output, made.out)
        if position is None:
            return
        axis, at = position
        shape, name = tuple(output.shape), self.facts.names.name_of_module(module)
        time = 1 if module.batch_first else 0
        is_last = at == shape[axis] - 1
        if axis == 1 - time and is_last and shape[time] > 1:
            order = "(batch, time, features)" if module.batch_first else "(time, batch, features)"
            right = "out[:, -1]" if module.batch_first else "out[-1]"
            problem = f"the result {shape} of {name} is {order}: the last along dimension {axis} is the last sample, "
            problem += "not the last step"
            self.report("last-of-wrong-dimension", made.place, name, problem, right, f"dim={axis} of {shape}")
        elif axis == time and is_last and padded == (shape[1 - time], shape[time]):
            problem = f"step {at} of {name} is a step of the padding for the shorter sequences {padded}"
            advice = "out[torch.arange(n), lengths - 1], or pack_padded_sequence and the last hidden state"
            self.report("padded-last-step", made.place, name, problem, advice, padded)
        elif axis == time and is_last and module.bidirectional and shape[time] > 1:
            problem = f"the last step of {name} has seen one step alone in its backward direction"
            advice = "join the last hidden states of both: torch.cat([h[-2], h[-1]], 1)"
            self.report("one-direction", made.place, name, problem, advice, shape)

    def _check_directions(self, module: RNNBase, states: Tensor) -> None:
        """Look for the state of one direction alone."""
        users = self.facts.flow.users(states)
        positions = [find_position(states, made.out) for made in users if made.op == "select"]
        if len(users) == len(positions) == 1 and positions[0] is not None and positions[0][0] == 0:
            name = self.facts.names.name_of_module(module)
            direction = "backward" if positions[0][1] % 2 else "forward"
            problem = f"of the states {tuple(states.shape)} of {name}, which reads both ways, the {direction} one "
            problem += "alone is used"
            advice = "join the last hidden states of both: torch.cat([h[-2], h[-1]], 1)"
            self.report("one-direction", users[0].place, name, problem, advice, tuple(states.shape))

    def _check_states(self, module: RNNBase, states: Tensor, made: Made) -> None:
        before, after = tuple(states.shape), tuple(made.out.shape)
        if len(before) == 3 and min(before[:2]) > 1 and after == (before[1], before[0] * before[2]):
            name = self.facts.names.name_of_module(module)
            problem = f"the states {before} of {name} are (layers and directions, batch, features): a view as "
            problem += f"{after} mixes the samples"
            advice = "h.transpose(0, 1).reshape(n, -1), or torch.cat([h[-2], h[-1]], 1)"
            self.report("view-in-place-of-transpose", made.place, "view", problem, advice, after)


class DetachedSteps(WatchRule):
    """A cell that gets its own last state without its history, in each step of a sequence."""

    modules = (RNNCellBase,)
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.states: dict[int, tuple[Operand, Module]] = {}  # the arrays of this pass, by identity
        self.counts: dict[int, tuple[Module, int, Place]] = {}

    def enter_module(self, call: ModuleCall) -> None:
        given = call.inputs[1] if len(call.inputs) > 1 else None
        states = given if isinstance(given, tuple) else (given,)
        lost = [x for x in states if isinstance(x, Tensor) and x.node is None and id(x.array) in self.states]
        if call.is_recording and lost and self.states[id(lost[0].array)][1] is call.module:
            _, count, place = self.counts.get(id(call.module), (call.module, 0, caller_place()))
            self.counts[id(call.module)] = call.module, count + 1, place

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        for x in output if isinstance(output, tuple) else (output,):
            if isinstance(x, Tensor) and x.node is not None:
                self.states[id(x.array)] = x.array, call.module

    def begin_backward(self, backward: Backward) -> None:
        counts, self.states, self.counts = self.counts, {}, {}
        for module, count, place in counts.values():
            if count >= MIN_DETACHED:
                name = self.facts.names.name_of_module(module)
                problem = f"{name} gets its own last state without a history in {count} steps of a pass: no step "
                problem += "learns what a later one needs"
                self.report("state-detached", place, name, problem, "detach() between batches alone", count)


class CutSteps(WatchRule):
    """A state that a loop cuts from its history in each step: what made all but the last learns nothing."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow, states = self.facts.flow, dict[Place, list[Made]]()
        for used in list(flow.steps.values()):
            for x in used.tensors if used.out.node is not None else ():
                made = flow.maker(x) if x.node is None and is_array(x) and x.array.dtype.kind == "f" else None
                if made is not None and made.out.node is not None and made.op != "sub":
                    known = states.setdefault(made.place, [])
                    known += [made] if all(made is not each for each in known) else []
        for known in states.values() if not self.facts.has_found("state-detached") else ():
            cuts = Counter(cut.place for cut in self.facts.cuts if cut.what in ("detach()", ".data"))
            if not cuts:
                return
            place, count = cuts.most_common(1)[0]
            if min(count, len(known)) >= MIN_DETACHED and self._is_chain(known) and not is_reached(known, backward):
                name = next(
                    (text_of(node.value) for node in nodes_at(place, ast.Attribute) if node.attr in CUTS), "state"
                )
                problem = (
                    f"{name} is cut from its history in each of {len(known)} steps of a pass: no step learns what "
                )
                problem += "a later one needs"
                self.report("state-detached", place, name, problem, "detach() between batches alone", len(known))
                return

    def _is_chain(self, states: list[Made]) -> bool:
        """Return whether each state comes from the one before, and from parameters."""
        behind = [self.facts.flow.makers_behind(*made.tensors) for made in states]
        is_learned = all(any(isinstance(x, Parameter) for each in found for x in each.tensors) for found in behind)
        chain = zip(states, behind[1:], strict=False)
        return is_learned and all(any(each is before for each in found) for before, found in chain)


def is_reached(states: list[Made], backward: Backward) -> bool:
    """Return whether a backward pass goes through one of some results."""
    queue, seen = [root.node for root in backward.roots if root.node is not None], set[Operand]()
    wanted = {made.out.node for made in states}
    while queue:
        node = queue.pop()
        if node in wanted:
            return True
        if node not in seen:
            seen.add(node)
            queue += [parent for parent in node.parents if parent is not None]
    return False


class CarriedState(WatchRule):
    """A state that one batch hands on to the next, although the loader shuffles the samples."""

    modules = (RNNBase,)

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.states: dict[int, Operand] = {}  # the arrays of the last states, by identity
        self.batch, self.batch_of_states = 0, 0  # how many a loader has given, and before those states
        self.is_shuffled = False

    def loader_is_read(self, loader: Operand) -> None:
        """See a pass over a loader begin."""
        self.is_shuffled = isinstance(getattr(loader, "sampler", None), RandomSampler)

    def batch_is_read(self, iterator: Operand) -> None:
        """See a loader give a batch."""
        self.batch += 1

    def enter_module(self, call: ModuleCall) -> None:
        given = call.inputs[1] if len(call.inputs) > 1 else None
        states = given if isinstance(given, tuple) else (given,)
        is_known = any(isinstance(x, Tensor) and id(x.array) in self.states for x in states)
        if call.is_recording and self.is_shuffled and self.batch_of_states < self.batch and is_known:
            name = self.facts.names.name_of_module(call.module)
            problem = f"{name} begins a batch with the state that the batch before has left, and the loader shuffles: "
            problem += "it is the state of other sequences"
            advice = "no state for each batch (None), or a loader with shuffle=False and batches that go on"
            is_given = any(x is given for x in call.root.inputs[1:])
            place = call.root.place if is_given else caller_place()
            self.report("state-of-other-samples", place, "state", problem, advice, self.batch)

        if call.is_recording and given is None and self.states and call.parent is not None:
            self._check_holder(call.parent.module, call)

    def _check_holder(self, holder: Module, call: ModuleCall) -> None:
        """Look for an attribute that holds the last state, where the layer begins without one."""
        for key, value in vars(holder).items():
            parts = value if isinstance(value, (tuple, list)) else (value,)
            if any(isinstance(x, Tensor) and id(x.array) in self.states for x in parts):
                name = f"{self.facts.names.name_of_module(holder)}.{key}"
                if not is_read(holder, key):
                    layer = self.facts.names.name_of_module(call.module)
                    problem = (
                        f"{name} keeps the state that {layer} has left, and {layer} gets none: it begins each time "
                    )
                    problem += "with zeros"
                    self.report("state-unused", caller_place(), name, problem, f"{layer}(x, self.{key})", "None")

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if call.is_recording and isinstance(output, tuple) and len(output) == 2:
            states = output[1] if isinstance(output[1], tuple) else (output[1],)
            self.states = {id(x.array): x.array for x in states if isinstance(x, Tensor)}
            self.batch_of_states = self.batch


def is_read(holder: Module, key: str) -> bool:
    """Return whether a line of the file of a class reads an attribute of this name."""
    code = getattr(type(holder).forward, "__code__", None)
    attributes = [] if code is None else nodes_in(code.co_filename, ast.Attribute)
    return not attributes or any(node.attr == key and isinstance(node.ctx, ast.Load) for node in attributes)


def find_position(whole: Tensor, part: Tensor) -> tuple[int, int] | None:
    """Return the axis and index at which a part of three dimensions, of one or two less, lies in the whole."""
    node: Operand = part.node
    params = getattr(node, "params", None) or {}
    if "axis" in params and "at" in params:
        return params["axis"], int(params["at"]) % whole.array.shape[params["axis"]]
    return None


class FirstOfAll(WatchRule):
    """The first step of a sequence, which has seen nothing else, or the state of the first of several layers."""

    modules = (RNNBase,)
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.runs: list[tuple[RNNBase, Tensor, Tensor]] = []

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        run = _find_run(call, output)
        if run is not None:
            self.runs.append(run)

    def begin_backward(self, backward: Backward) -> None:
        runs, self.runs = self.runs, []
        for module, output, states in runs:
            if module.bidirectional:
                continue
            of_steps, of_states = self.facts.flow.users_past_moves(output), self.facts.flow.users_past_moves(states)
            steps = output.array.shape[1 if module.batch_first else 0]
            first = output.array[:, 0] if module.batch_first else output.array[0]
            if steps > 1 and not of_states and is_only(of_steps, first):
                name = self.facts.names.name_of_module(module)
                problem = f"the first of {steps} steps of {name} is used, and no other: it has seen nothing of the rest"
                advice = "out[:, -1]" if module.batch_first else "out[-1]"
                self.report("first-step", of_steps[0].place, name, problem, advice, steps)
            if module.num_layers > 1 and not of_steps and is_only(of_states, states.array[0]):
                name = self.facts.names.name_of_module(module)
                problem = (
                    f"the state of the first of {module.num_layers} layers of {name} is used, and that of the last "
                )
                problem += "is not"
                self.report("first-layer", of_states[0].place, name, problem, "h[-1]", module.num_layers)


def is_only(users: list[Made], values: Operand) -> bool:
    """Return whether all that is used of a tensor is one selection of these values."""
    chosen = [made for made in users if made.op == "select"]
    return len(users) == len(chosen) == 1 and np.array_equal(chosen[0].out.array, values)


def _find_run(call: ModuleCall, output: Operand) -> tuple[RNNBase, Tensor, Tensor] | None:
    """Return a recurrent layer that has run on a batch, its outputs and its hidden states; None for another call."""
    if not isinstance(call.module, RNNBase) or not call.is_recording or not isinstance(output, tuple):
        return None
    states = output[1][0] if isinstance(output[1], tuple) else output[1]
    if not isinstance(output[0], Tensor) or output[0].array.ndim != 3 or not isinstance(states, Tensor):
        return None
    return call.module, output[0], states
