"""Rules on who is trained with what: a copy in place of the model, and rows that are to validate."""

from __future__ import annotations

import ast
import re

import numpy as np

from adjoint.core.typing import Array, Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.loops.states import COPIES
from adjoint.diagnosis.rules.source.splits import HELD_OUT, TRAINED
from adjoint.diagnosis.rules.writes import instruction_of_write, place_of_write
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import Backward, ModuleCall, OptimizerStep, caller_frame
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.names import describe_iterated
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import line_of, nodes_around
from adjoint.nn.layers.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from adjoint.nn.module.module import Module

MAX_BYTES = 4096  # of a weight, that tell whether it has changed
FIRST_PASSES = 8  # in which each optimizer makes its first step


class UntrainedCopy(WatchRule):
    """A model that is evaluated after the training, and that is as it was: a copy of it was trained."""

    sees_roots_only = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.trained: dict[int, Module] = {}
        self.evaluated: dict[int, tuple[Module, Place, int]] = {}
        self.first: dict[int, Array] = {}  # the first weight of each trained model, at its first call

    def enter_module(self, call: ModuleCall) -> None:
        key = id(call.module)
        if call.is_recording:
            self.trained[key] = call.module
            weight = first_weight(call.module)
            if weight is not None and key not in self.first:
                self.first[key] = weight.copy()
        elif self.facts.steps and call.place is not None and not call.module.training:
            self.evaluated[key] = call.module, call.place, self.facts.steps

    def finish(self) -> None:
        own = self.facts.find_optimizers()
        for key, (module, place, steps) in self.evaluated.items():
            name = self.facts.names.name_of_module(module)
            if key in self.trained or steps != self.facts.steps or any(id(p) in own for p in module.parameters()):
                continue
            weight = first_weight(module)
            for other, model in self.trained.items():
                is_same = other in self.first and weight is not None and np.array_equal(self.first[other], weight)
                if is_same and other not in self.evaluated and not COPIES.search(name):
                    trained = self.facts.names.name_of_module(model)
                    made = next((r.made for r in self.facts.names.models() if r.module is model), None)
                    problem = f"{name} is evaluated after {steps} steps, and is as it was before them: they trained "
                    problem += f"{trained}, a copy of it"
                    advice = f"train {name} itself, or return the copy and evaluate it"
                    self.report("copy-trained", made or place, name, problem, advice, steps)


def first_weight(module: Operand) -> Array | None:
    """Return the values of the first weight of a model."""
    return next((p.array for p in module.parameters() if is_array(p) and p.array.ndim > 1), None)


class AverageWithoutBuffers(WatchRule):
    """A copy of a model whose weights follow it, and whose running statistics are as they were at the start."""

    modules = (BatchNorm1d, BatchNorm2d, BatchNorm3d)

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.evaluated: dict[int, tuple[Module, Module, Place, set[bytes]]] = {}  # with values of its weight over time

    def enter_module(self, call: ModuleCall) -> None:
        module, root = call.module, call.root
        mean, var = module._buffers.get("running_mean"), module._buffers.get("running_var")
        weight = first_weight(root.module)
        if call.is_recording or module.training or mean is None or var is None or root.place is None:
            return
        if self.facts.steps and weight is not None and not mean.array.any() and (var.array == 1).all():
            known = self.evaluated.setdefault(id(root.module), (root.module, module, root.place, set()))
            known[-1].add(weight.tobytes()[:MAX_BYTES])

    def finish(self) -> None:
        own = self.facts.find_optimizers()
        for model, norm, called, values in self.evaluated.values():
            weight = next((p for p in model.parameters() if p.ndim > 1), None)
            if len(values) < 2 or weight is None or any(id(p) in own for p in model.parameters()):
                continue
            written = place_of_write(instruction_of_write(weight))
            loops = nodes_around(written, ast.For) if written is not None else []
            loops = [node for node in loops if "parameters()" in text_of(node.iter)]
            place = line_of(written.site.file, loops[-1]) if written is not None and loops else written or called
            name = self.facts.names.name_of_module(model)
            problem = f"the weights of {name} follow another model, and {self.facts.names.name_of_module(norm)} "
            problem += "still has the running mean 0 and variance 1 of its start"
            advice = "copy the buffers too: for e, b in zip(ema.buffers(), model.buffers()): e.copy_(b)"
            self.report("buffers-not-copied", place, name, problem, advice, 0)


class TrainedOnHeldOut(WatchRule):
    """Steps with batches of a loader that is to validate."""

    sees_every_step = True

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.reading = ""
        self.steps: dict[tuple[str, int], list[Place]] = {}  # by the loader's name, and the optimizer

    def loader_is_read(self, loader: Operand) -> None:
        """See a pass over a loader begin."""
        name = (re.findall(r"\w+", describe_iterated(loader, caller_frame())[0]) or [""])[-1]
        made = self.facts.constructions.get(loader)
        is_told = HELD_OUT.search(name) or TRAINED.search(name) or made is None
        self.reading = name if is_told or made is None else re.split(r"[,= ]", made.text)[0]

    def before_step(self, step: OptimizerStep) -> None:
        if self.reading:
            self.steps.setdefault((self.reading, id(step.record.optimizer)), []).append(step.place)

    def finish(self) -> None:
        for (name, optimizer), places in self.steps.items():  # another optimizer may learn from rows that are held out
            is_trained = any(TRAINED.search(other) and optimizer == key for other, key in self.steps)
            if HELD_OUT.search(name) and is_trained:
                count = len(places)
                problem = f"{count} steps were made with batches of {name}: what it is to validate was trained with it"
                advice = "backward() and step() in training alone"
                self.report("trained-on-held-out", places[0], name, problem, advice, count)


class LossOfAnother(WatchRule):
    """A loss that depends on the parameters of another optimizer than the one that makes the step after it."""

    max_passes = FIRST_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.last: tuple[Place | None, set[int]] = None, set()  # the line of a loss, and the tensors that it comes from
        self.losses: dict[int, tuple[Place | None, set[int]]] = {}  # those before the first step of an optimizer

    def begin_backward(self, backward: Backward) -> None:
        made = self.facts.flow.maker(backward.roots[0]) if backward.roots else None
        place = made.place if made is not None else backward.place
        self.last = place, {id(leaf.variable) for leaf in self.facts.leaves_of(backward)}

    def before_step(self, step: OptimizerStep) -> None:
        self.losses.setdefault(id(step.record.optimizer), self.last)

    def finish(self) -> None:
        records = list(self.facts.optimizers.values())
        if any(not cut.what.startswith("no_grad") for cut in self.facts.cuts):
            return  # whose line is the cause
        for record in records:
            place, reached = self.losses.get(id(record.optimizer), (None, set()))
            own = [p for p in record.parameters() if p.requires_grad]
            others = [each for each in records if each is not record]
            other = next((each for each in others if any(id(p) in reached for p in each.parameters())), None)
            if place is None or other is None or not own or any(id(p) in reached or p._grad is not None for p in own):
                continue
            problem = f"the loss before {record.name}.step() depends on parameters of {other.name}, and on none of "
            problem += f"{record.name}; all {len(own)} have no gradient"
            advice = f"compute it from what the model of {record.name} gives, not from stored values"
            self.report("loss-of-another", place, record.name, problem, advice, len(own))
