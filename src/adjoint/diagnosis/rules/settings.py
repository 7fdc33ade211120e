"""Rules on what is set around the steps: optimizers' options, attributes nobody reads, clipping, compilation."""

from __future__ import annotations

import ast
import re

import numpy as np

from adjoint.core.graph.node import Node
from adjoint.core.graph.source_location import definition_site
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import Backward, OptimizerRecord, OptimizerStep, caller_place
from adjoint.diagnosis.watch.facts import Facts, op_name
from adjoint.diagnosis.watch.frames import place_of_attribute
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import find_attribute_writes, find_calls, nodes_around
from adjoint.nn.module.module import Module

MAX_PENALTY = 0.5  # the factor of the weights in their gradient
MAX_DECAY = 0.03  # of the weights in a step, from which on nothing is learned
MANY_COMPILATIONS = 5
MIN_OPTIMIZERS = 3  # of the same parameters, made one after another
TYPOS = ("require_grad", "required_grad", "requires_gradient", "requires_grads", "require_grads", "trainable")
# Ops at the end of losses that are to become small.
LOSS_OPS = ("mean_nll", "squared_error", "mean_squared_error")


class OptimizerOptions(WatchRule):
    """Options with which no training can go well, and a loss that is made large instead of small."""

    sees_every_step = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.negated: list[Place] = []
        self.known = 0  # backward passes from losses that are to become small

    def begin_backward(self, backward: Backward) -> None:
        node = backward.roots[0].node if len(backward.roots) == 1 else None
        negation = node if isinstance(node, Node) and node.op.name == "neg" else None
        if op_name(node if negation is None else negation.parents[0]) in LOSS_OPS:
            self.known += 1
            if negation is not None:
                self.negated.append(Place(negation.site))

    def finish(self) -> None:
        for record in self.facts.optimizers.values():
            for group in record.optimizer.param_groups:
                self._check_group(record, group)
        if self.negated and len(self.negated) == self.facts.iteration and len(self.facts.optimizers) == 1:
            self.report(
                "negated-loss",
                self.negated[0],
                "loss",
                f"the negative of a loss is made small in all {self.facts.iteration} steps: the loss itself grows",
                "leave out the minus",
                self.facts.iteration,
            )

    def _check_group(self, record: OptimizerRecord, group: dict[str, Operand]) -> None:
        place = record.place
        momentum, decay, lr = (group.get(key) or 0 for key in ("momentum", "weight_decay", "lr"))
        if isinstance(momentum, (int, float)) and momentum >= 1:
            problem = (
                f"momentum={momentum:g} of {record.name} keeps all steps before and adds to them: they grow forever"
            )
            self.report("momentum-too-large", place, record.name, problem, "set it below 1, such as 0.9", momentum)
        decays_weights = type(record.optimizer).__name__ in ("SGD", "AdamW", "RMSprop") and not isinstance(lr, Tensor)
        is_penalty = type(record.optimizer).__name__ != "AdamW" and decay >= MAX_PENALTY
        if is_penalty or (decays_weights and lr * decay >= MAX_DECAY):
            effect = f"with lr={lr:g} takes {min(lr * decay, 1):.0%} of each weight in each step"
            if not decays_weights:
                effect = "adds as many times the weights to their gradients, in which the loss hardly counts"
            problem = f"weight_decay={decay:g} {effect}"
            self.report("weight-decay-too-large", place, record.name, problem, "set weight_decay to 0.01 or so", decay)
        if group.get("maximize") and self.known and self.known == self.facts.iteration:
            problem = f"{record.name} makes the loss large: maximize=True, of a loss that is to become small"
            self.report("maximized-loss", place, record.name, problem, "leave out maximize=True", True)


class UnreadAttributes(WatchRule):
    """`requires_grad` misspelled, or set on a module, where nobody reads it."""

    def finish(self) -> None:
        places = [backward.place for backward in self.facts.backwards[:1]]
        for root in self.facts.names.models() if places else ():
            for path, part in root.module.named_modules():
                name = ".".join(filter(None, (root.name, path)))
                if "requires_grad" in vars(part):
                    self._report(
                        places[0], "requires_grad", name, "a module does not have it", ".requires_grad_(False)"
                    )
                for key, p in part._parameters.items():
                    typo = next((typo for typo in TYPOS if p is not None and typo in vars(p)), None)
                    if typo is not None:
                        advice = ".requires_grad = False"
                        self._report(places[0], typo, f"{name}.{key}", "nobody reads it", advice)

        for record in self.facts.optimizers.values() if places else ():
            for key in record.optimizer.defaults.keys() & vars(record.optimizer).keys():
                problem = f"{key} is set on {record.name}, and its steps read {key} of param_groups"
                place = next(find_attribute_writes(places[0].site, key), None)
                advice = f'for group in {record.name}.param_groups: group["{key}"] = …'
                if place is not None:
                    self.report("unread-attribute", place, f"{record.name}.{key}", problem, advice, key)

    def _report(self, near: Place, attribute: str, name: str, why: str, advice: str) -> None:
        if not any(finding.kind == "unread-attribute" for finding in self.facts.report):
            problem = f"{attribute} is set on {name}: {why}, so nothing is frozen"
            place = next(find_attribute_writes(near.site, attribute), None)
            self.report("unread-attribute", place, name, problem, f"write {advice}", attribute)


class SharedMemory(WatchRule):
    """Two parameters in the same memory: what one learns, the other is changed by."""

    max_steps = 1

    def before_step(self, step: OptimizerStep) -> None:
        seen: dict[tuple[int, int], Operand] = {}
        for p in step.record.parameters():
            if type(p.array) is not np.ndarray or p.array.size < 2:
                continue
            other = seen.setdefault((p.array.__array_interface__["data"][0], p.array.nbytes), p)
            if other is not p:
                one, two = map(self.facts.names.name_of_parameter, (other, p))
                places = list(find_attribute_writes(step.place.site, "data"))
                place = places[-1] if places else self.facts.names.origin_of_parameter(p)
                problem = f"{two} lies in the memory of {one}: each step changes both twice"
                self.report("shared-memory", place, two, problem, "give each its own: .clone()", p.array.nbytes)


class SharedBuffers(WatchRule):
    """A buffer that two modules have, and that each of them changes for the other."""

    max_steps = 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.shared: list[tuple[Tensor, int, Module, str]] = []  # with its version, the second module and the name

    def before_step(self, step: OptimizerStep) -> None:
        holders: dict[int, Module] = {}
        for root in self.facts.names.models() if not self.facts.steps else ():
            for part in root.module.modules():
                for key, buffer in part._buffers.items():
                    other = part if buffer is None else holders.setdefault(id(buffer), part)
                    if buffer is not None and other is not part:
                        self.shared.append((buffer, buffer._version, part, key))

    def finish(self) -> None:
        for buffer, version, part, key in self.shared:
            if buffer._version > version + 1:
                name = f"{self.facts.names.name_of_module(part)}.{key}"
                problem = f"{name} {tuple(buffer.shape)} is the tensor of another module too, and was written "
                problem += f"{buffer._version - version} times: each changes it for both"
                place = place_of_attribute(part, key) or self.facts.names.origin_of_module(part)
                self.report("shared-memory", place, name, problem, "give each its own: clone() it", buffer._version)
                return


class ConstantWeights(WatchRule):
    """A model all of whose weights are constants: the units of a layer learn the same."""

    max_steps = 1

    def before_step(self, step: OptimizerStep) -> None:
        if self.facts.steps:
            return
        for root in self.facts.names.models():
            weights = [p for p in root.module.parameters() if p.array.ndim >= 2 and p.array.size > 1]
            if len(weights) >= 2 and all(np.ptp(p.array) == 0 for p in weights):
                calls = find_calls(step.place.site, ("zeros_", "ones_", "constant_", "zero_", "fill_"))
                name, value = self.facts.names.name_of_parameter(weights[0]), float(weights[0].array.flat[0])
                problem = (
                    f"all {len(weights)} weights of {root.name} begin as {value:g}: all units of a layer are alike"
                )
                advice = "leave the initial values of the layers, or nn.init.kaiming_uniform_"
                place = next(calls, None) or self.facts.names.origin_of_parameter(weights[0])
                self.report("constant-weights", place, name, problem, advice, value)


EPOCHS = re.compile(r"\w*epoch|ep|it|iteration")  # names of loops that go on with one model, and compare no settings


def find_loop_variable(place: Place | None) -> str | None:
    """Return the variable of the innermost loop around a line, if it only counts."""
    around = [] if place is None else nodes_around(place, ast.For)
    loops = [loop for loop in around if place is not None and loop.lineno < place.site.line]
    return text_of(loops[-1].target) if loops and "range(" in text_of(loops[-1].iter) else None


class FreshOptimizers(WatchRule):
    """An optimizer that is made anew again and again, and so forgets its momentum."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.seen: dict[int, list[OptimizerRecord]] = {}  # by the first parameter's id

    def after_step(self, step: OptimizerStep) -> None:
        parameters = step.record.parameters()
        if step.number or not parameters or not step.record.optimizer.state.get(parameters[0]):
            return
        records = self.seen.setdefault(id(parameters[0]), [])
        records.append(step.record)
        if len(records) == MIN_OPTIMIZERS and len({str(record.made) for record in records}) == 1:
            name, kind = step.record.name, type(step.record.optimizer).__name__
            problem = f"{name} is made anew after {records[0].steps} steps, {len(records)} times by now: {kind} begins "
            problem += "without what it has learned of the gradients"
            self.report(
                "optimizer-made-anew", step.record.made, name, problem, "make it once, before the loop", len(records)
            )

    def finish(self) -> None:
        places: dict[str, list[OptimizerRecord]] = {}
        for records in self.seen.values():
            places.setdefault(str(records[0].made), []).extend(records[:1])
        for made in places.values():
            loop = None if len(made) < MIN_OPTIMIZERS else find_loop_variable(made[0].made)
            if loop is not None and EPOCHS.fullmatch(loop):
                problem = (
                    f"{made[0].name} and its model are made anew in each turn of the loop over {loop}, {len(made)} "
                )
                problem += "times by now: what was learned is lost"
                advice = "make both once, before the loop"
                self.report("model-made-anew", made[0].made, made[0].name, problem, advice, len(made))


class Recompilations(WatchRule):
    """A function that is compiled in each step."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.made: dict[Operand, tuple[int, Place]] = {}
        self.compiled: dict[int, Operand] = {}

    def function_is_compiled(self, compiled: Operand, function: Operand, *args: object, **kwargs: object) -> None:
        """See `compile(function)`."""
        place = caller_place()
        code = getattr(function, "__code__", None)
        key = code or (type(function), place)  # a module is compiled again by the same line
        count, place = self.made.get(key, (0, place))
        self.made[key] = count + 1, place

    def compiled_is_called(self, compiled: Operand, *args: object, **kwargs: object) -> None:
        """See a call of a compiled function."""
        self.compiled[id(compiled)] = compiled

    def finish(self) -> None:
        for key, (count, place) in self.made.items():
            name = key[0].__name__ if isinstance(key, tuple) else key.co_name
            if count >= MANY_COMPILATIONS and count >= self.facts.steps // 2:
                self.report(
                    "recompilation",
                    place,
                    name,
                    f"{name} is compiled anew {pluralize(count, 'time')}: each call of compile() gives "
                    "another function",
                    "call compile() once, before the loop",
                    count,
                )
        for compiled in self.compiled.values():
            if compiled.compilations >= MANY_COMPILATIONS:
                code = getattr(compiled.function, "__code__", None)
                changes = compiled.recompilations[-1].changes
                why = "; ".join(map(str, changes)) or "other shapes"
                reads = [Place(each.site) for each in changes if each.site is not None]
                self.report(
                    "recompilation",
                    reads[0] if reads else None if code is None else place_of_code(code),
                    compiled.name,
                    f"{compiled.name} was compiled {pluralize(compiled.compilations, 'time')}; the last time since: "
                    f"{why}",
                    "pass what changes as a tensor argument, and keep the shapes",
                    compiled.compilations,
                )


def place_of_code(code: Operand) -> Place:
    """Return the first line of a function."""
    return Place(definition_site(code))
