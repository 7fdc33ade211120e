"""Rules on what takes part and does nothing: tables of zeros, factors of 0, reversals that reverse nothing, loaders."""

from __future__ import annotations

import ast
import re

import numpy as np

from adjoint.core.graph.source_location import library_files
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.data.loader import DataLoader
from adjoint.diagnosis.findings import Place, place_of_frame, place_of_origin
from adjoint.diagnosis.operands import find_return_in
from adjoint.diagnosis.source_expressions import text_of
from adjoint.diagnosis.watch.events import Backward, ModuleCall, OptimizerStep, caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.frames import find_expression
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import DRAWS
from adjoint.nn.layers.embedding import Embedding
from adjoint.nn.module.parameter import Parameter

MIN_PASSES = 3
MAX_PASSES = 24
HELD_OUT = re.compile(r"(?:^|_)(?:te|test|val|valid|validation|dev|eval|holdout)(?:_|$|loader|dl)")
REVERSALS = re.compile(r"rev|grl|advers", re.IGNORECASE)


class EqualVectors(WatchRule):
    """An embedding whose vectors are all the same, and stay so for they are frozen."""

    modules = (Embedding,)
    max_passes = 1

    def enter_module(self, call: ModuleCall) -> None:
        weight = call.module._parameters.get("weight")
        if weight is None or weight.requires_grad or not is_array(weight) or len(weight.array) < 2:
            return
        if (weight.array == weight.array[:1]).all():
            name = self.facts.names.name_of_module(call.module)
            problem = f"{name} is frozen, and all its {len(weight.array)} vectors are the same: its result tells no "
            problem += "token from another"
            place = self.facts.names.origin_of_module(call.module) or caller_place()
            self.report("constant-input", place, name, problem, "freeze=False in from_pretrained, or other vectors", 0)


class FrozenVectors(WatchRule):
    """An embedding of random vectors that `from_pretrained` froze without being asked to."""

    modules = (Embedding,)
    max_passes = 1

    def enter_module(self, call: ModuleCall) -> None:
        weight, flow = call.module._parameters.get("weight"), self.facts.flow
        if weight is None or weight.requires_grad or not call.is_recording or not flow.is_open:
            return
        drawn = flow.maker(weight)
        place = self.facts.names.origin_of_module(call.module)
        text = "" if place is None else place.text
        if drawn is not None and drawn.op in DRAWS and "from_pretrained(" in text and "freeze" not in text:
            name = self.facts.names.name_of_module(call.module)
            problem = (
                f"the {len(weight.array)} vectors of {name} are random, and from_pretrained freezes them unless it "
            )
            problem += "is told not to: they stay as they are"
            self.report(
                "vectors-frozen", place, name, problem, "from_pretrained(vectors, freeze=False)", len(weight.array)
            )


class ZeroFactor(WatchRule):
    """A term of the loss times a whole number that stays 0, as one that // gave does."""

    ops = frozenset({"mul"})

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.passes: dict[Place, tuple[str, set[int]]] = {}
        self.others: set[Place] = set()

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        numbers = [x for x in inputs if isinstance(x, (int, float)) and not isinstance(x, bool)]
        if out.node is None or not numbers or library_files[caller_frame().f_code.co_filename]:
            return
        if numbers[0] != 0 or not isinstance(numbers[0], int):
            self.others.add(caller_place())
            return
        found = find_expression(caller_frame())
        node = found[1] if found is not None else None
        sides = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
        name = next((text_of(each) for each in sides if isinstance(each, (ast.Name, ast.Attribute))), "")
        if name and not any(isinstance(each, ast.Constant) for each in sides):
            self.passes.setdefault(caller_place(), (name, set()))[1].add(self.facts.iteration)

    def finish(self) -> None:
        for place, (name, passes) in self.passes.items():
            if len(passes) >= MIN_PASSES and place not in self.others:
                problem = f"a value is multiplied by a whole number that is 0 in all {len(passes)} passes "
                problem += "that were watched: it changes nothing"
                self.report("term-without-weight", place, name, problem, "/ in place of //, or a number above 0", 0)


class IdleReversal(WatchRule):
    """A reversal of gradients whose backward gives them as they are."""

    max_passes = 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.seen: set[type] = set()

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        function: Operand = getattr(op, "function", None)
        if function is None or function in self.seen or out.node is None or not REVERSALS.search(function.__name__):
            return
        self.seen.add(function)
        x = next((x for x in inputs if is_array(x)), None)
        if x is None or x.shape != out.shape or not np.array_equal(x.array, out.array):
            return
        place = place_of_origin(find_return_in(function.backward.__code__))
        found = None if place is None else place.text.partition("return")[2]
        names = function.backward.__code__.co_varnames[1 : function.backward.__code__.co_argcount]
        if found is not None and re.split(r"[,\s]+", found.strip())[0].rstrip(".clone()") in names:
            problem = f"backward of {function.__name__} gives the gradient as it is: nothing is reversed"
            self.report("wrong-backward", place, function.__name__, problem, "return -gradient", "")


class AttackGradients(WatchRule):
    """A pass for the gradient of an input whose gradients of the weights are still there at the step."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.passes: list[tuple[int, Place, bool, set[int]]] = []  # those since the last step, and what they reach
        self.found: list[tuple[Place, str]] = []

    def begin_backward(self, backward: Backward) -> None:
        leaves = [leaf.variable for leaf in self.facts.leaves_of(backward)] if self.facts.iteration < MAX_PASSES else []
        known: list[Operand] = [x for x in leaves if x is not None]
        is_attack = any(not isinstance(x, Parameter) and x.array.ndim > 1 for x in known)
        weights = {id(x) for x in known if isinstance(x, Parameter)}
        self.passes.append((self.facts.iteration, backward.place, is_attack, weights))

    def before_step(self, step: OptimizerStep) -> None:
        passes, self.passes = self.passes, []
        if len(passes) != 2 or not passes[0][2] or passes[1][2] or passes[0][1] == passes[1][1]:
            return
        own = {id(p) for p in step.record.parameters()}
        is_cleared = any(number == passes[1][0] for number, _ in self.facts.zeroed)
        if own & passes[0][3] & passes[1][3] and not is_cleared:
            self.found.append((passes[0][1], step.record.name))

    def finish(self) -> None:
        if len(self.found) >= MIN_PASSES:
            place, name = self.found[0]
            problem = f"the pass for the gradient of the input gives the weights gradients too, and {name} uses them "
            problem += "with those of the loss"
            advice = f"{name}.zero_grad() after it, or autograd.grad(loss, x)"
            self.report("foreign-gradients", place, name, problem, advice, len(self.found))


class UnreadLoader(WatchRule):
    """A loader of training data that no loop reads, where the same other one is read to train and to evaluate."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.read: list[Operand] = []
        self.modes: dict[int, set[bool]] = {}  # whether a model was recorded on its batches
        self.loops: dict[int, Place] = {}  # the line that reads a loader to evaluate
        self.reading: Place | None = None

    def loader_is_read(self, loader: Operand) -> None:
        """See a pass over a loader begin."""
        self.read.append(loader)
        self.reading = place_of_frame(caller_frame())

    def enter_module(self, call: ModuleCall) -> None:
        if call.parent is None and self.read:
            self.modes.setdefault(id(self.read[-1]), set()).add(call.is_recording)
            if not call.is_recording and self.reading is not None:
                self.loops.setdefault(id(self.read[-1]), self.reading)

    def _check_held_out(self, loader: Operand, place: Place, used: Operand) -> None:
        """Look for a loader of samples that were held out, while those of training are read to evaluate."""
        name = re.split(r"[,= ]", place.text)[0]
        where = self.loops.get(id(used))
        if where is not None and HELD_OUT.search(name) and len(loader):
            problem = f"the evaluation reads the loader of training, and no loop reads {name}: it says nothing of "
            problem += "other samples"
            self.report("evaluated-on-training", where, name, problem, f"for x, y in {name}: …", len(loader))

    def finish(self) -> None:
        both = [each for each in self.read if len(self.modes.get(id(each), ())) == 2]
        for loader, place in list(self.facts.constructions.items()) if both else ():
            is_read = any(each is loader for each in self.read) or not isinstance(loader, DataLoader)
            if not is_read:
                self._check_held_out(loader, place, both[-1])
            if not is_read and "train" in place.text.partition("=")[0]:
                used = self.facts.constructions.get(both[-1])
                where = "" if used is None else f", of {used.site.describe_briefly()},"
                problem = f"no loop reads this loader: another one{where} is read to train and to evaluate"
                name = re.split(r"[,= ]", place.text)[0]
                self.report("loader-unused", place, name, problem, f"for x, y in {name}: …", len(both))
