"""Rules on parts that are made and never used: a dropout that no forward calls, a schedule that never goes on."""

from __future__ import annotations

import ast
import re
from itertools import pairwise, product

from adjoint.core.graph.source_location import Site, library_files
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.modes import DROPOUTS
from adjoint.diagnosis.rules.source.text_rule import find_sources, name_of
from adjoint.diagnosis.source_expressions import SourceFile, text_of
from adjoint.diagnosis.watch.events import ModuleCall, OptimizerStep, caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.frames import place_of_attribute, user_frames
from adjoint.diagnosis.watch.names import RootModule, origin_of_name
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import nodes_in
from adjoint.nn.module.module import Module
from adjoint.optim.lr.scheduler import LRScheduler

MADE_EMPTY = re.compile(r"= *nn\.Parameter\((?:\w+\.)*(?:empty|Tensor|FloatTensor)\(")
MIN_GROUP_STEPS = 2
MIN_STEPS = 4  # of an optimizer, after which its schedule is to have gone on
MAX_FRAMES = 4
MAX_CALLS = 64  # within a module


class UnusedLayer(WatchRule):
    """A dropout that a model has, and that no line of its class names again."""

    modules = (*DROPOUTS, Module)
    max_passes = 2

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.calls: dict[int, list[tuple[Module, Place]]] = {}  # within each, of the first pass
        self.parents: dict[int, tuple[Module, set[int]]] = {}  # that were trained, with what they called

    def enter_module(self, call: ModuleCall) -> None:
        if call.is_recording and call.module.training:
            self.parents.setdefault(id(call.module), (call.module, set()))
        if call.parent is not None and id(call.parent.module) in self.parents:
            self.parents[id(call.parent.module)][1].add(id(call.module))
            if self.facts.iteration == 0 and next(iter(call.module._parameters), None) is not None:
                calls = self.calls.setdefault(id(call.parent.module), [])
                calls += [(call.module, caller_place())] if len(calls) < MAX_CALLS else []

    def _check_twins(self, parent: Module, calls: list[tuple[Module, Place]]) -> None:
        """Look for a layer that is called twice, where one of the same shapes is never called."""
        called = {id(module) for module, _ in calls}
        for name, unused in parent._modules.items():
            shapes = [tuple(p.shape) for p in unused.parameters()] if unused is not None else []
            if not shapes or id(unused) in called:
                continue
            for (one, _), (other, place) in pairwise(calls):
                if one is other and type(one) is type(unused) and [tuple(p.shape) for p in one.parameters()] == shapes:
                    path, taken = (self.facts.names.name_of_module(each) for each in (unused, one))
                    problem = f"{taken} is called twice here, and {path}, of the same shapes, never"
                    self.report("layer-in-place-of-other", place, path, problem, f"self.{name} in one of both", taken)
                    return

    def finish(self) -> None:
        if not self.facts.steps:
            return
        for key, calls in self.calls.items():
            self._check_twins(self.parents[key][0], calls)
        for parent, called in self.parents.values():
            for name, part in parent._modules.items():
                if not isinstance(part, DROPOUTS) or id(part) in called or not getattr(part, "p", 0):
                    continue
                place = place_of_attribute(parent, name)
                if place is None or is_named_again(place.site.file, name):
                    continue
                path = self.facts.names.name_of_module(part)
                problem = f"{path}, {type(part).__name__}(p={part.p:g}), is made and never called: nothing is dropped"
                self.report("unused-layer", place, path, problem, f"x = self.{name}(x) in forward", f"p={part.p:g}")


def is_named_again(file: str, name: str) -> bool:
    """Return whether a file reads an attribute of this name anywhere."""
    return any(node.attr == name and isinstance(node.ctx, ast.Load) for node in nodes_in(file, ast.Attribute))


class FrozenHead(WatchRule):
    """A new layer that a program puts into a model, and freezes with all others afterwards; one frozen at 0."""

    def _check_zeros(self, root: RootModule, source: SourceFile) -> None:
        """Look for a frozen matrix of zeros, such as that of an adapter: what it multiplies adds nothing."""
        freezes = [*source.outside_assignments.get("requires_grad", ()), *source.calls_of("requires_grad_")]
        for path, p in root.module.named_parameters() if freezes else ():
            if not p.requires_grad and p.ndim > 1 and is_array(p) and p.array.size and not p.array.any():
                name = f"{root.name}.{path}"
                problem = f"{name} {tuple(p.shape)} is frozen, and all 0: what it multiplies is 0, whatever it is"
                place = Place(Site(source.name, freezes[0].lineno, ""))
                self.report("frozen-parameters", place, name, problem, f"let {name} learn", 0)
                return

    def finish(self) -> None:
        trained = self.facts.find_optimizers()
        for root, source in product(self.facts.names.models(), find_sources(self.facts)):
            loops = [each for each in source.nodes_of(ast.For) if text_of(each.iter) == f"{root.name}.parameters()"]
            freezes = [node for node in source.outside_assignments.get("requires_grad", ()) if is_false(source, node)]
            inside = [(loop, node) for loop in loops for node in freezes if node in ast.walk(loop)]
            if not any(p.requires_grad and id(p) in trained for p in root.module.parameters()):
                continue
            self._check_zeros(root, source)
            for name, part in root.module._modules.items():
                own = list(part.parameters()) if part is not None and id(part) in self.facts.called else []
                for node in source.outside_assignments.get(name, ()) if own else ():
                    after = [freeze for loop, freeze in inside if loop.lineno > node.lineno]
                    made = source.statement_of(node)
                    is_new = isinstance(made, ast.Assign) and name_of(made.value) == type(part).__name__
                    if after and is_new and not any(p.requires_grad or p._grad is not None for p in own):
                        path = f"{root.name}.{name}"
                        problem = f"{path} is new, made at line {node.lineno}, and frozen here with all others: it "
                        problem += f"stays as random as it began ({pluralize(len(own), 'parameter')})"
                        place = Place(Site(source.name, after[0].lineno, ""))
                        self.report("new-layer-frozen", place, path, problem, f"make {path} after this line", len(own))
                        break


class FrozenGroups(WatchRule):
    """A group of an optimizer that has no parameters, or frozen ones alone."""

    def finish(self) -> None:
        records = [record for record in self.facts.optimizers.values() if record.steps >= MIN_GROUP_STEPS]
        if self.facts.has_found("loss-independent-of-model", "no-backward"):
            return
        for record, (i, group) in ((each, pair) for each in records for pair in enumerate(each.optimizer.param_groups)):
            parameters = group["params"]
            if not parameters:
                problem = f"group {i} of {record.name} has no parameters: none were left when it was made"
                advice = "make a list of the parameters: a generator gives each of them once"
                self.report("not-in-optimizer", record.place, record.name, problem, advice, 0)
            elif not any(p.requires_grad or p._grad is not None for p in parameters):
                name = self.facts.names.name_of_parameter(parameters[0])
                problem = f"all {pluralize(len(parameters), 'parameter')} of group {i} of {record.name} are frozen "
                problem += f"(requires_grad is False): {name} …"
                advice = "requires_grad_(True) for those that shall learn, or leave the group out"
                self.report("frozen-parameters", record.made, name, problem, advice, len(parameters))


def is_false(source: SourceFile, node: ast.Attribute) -> bool:
    """Return whether a line sets an attribute to False."""
    line = source.statement_of(node)
    return isinstance(line, ast.Assign) and text_of(line.value) == "False"


class UnusedSchedule(WatchRule):
    """A schedule of the rate whose `step` no line calls."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.known: dict[int, tuple[LRScheduler, str, Place | None]] = {}

    def before_step(self, step: OptimizerStep) -> None:
        if step.number:
            return
        for outer in user_frames(caller_frame())[:MAX_FRAMES]:
            for name, value in [*outer.f_locals.items(), *outer.f_globals.items()]:
                if isinstance(value, LRScheduler) and value.optimizer is step.record.optimizer:
                    place = origin_of_name(name, outer)
                    self.known.setdefault(id(value), (value, name, place))

    def finish(self) -> None:
        for schedule, name, place in self.known.values():
            record = self.facts.optimizers.get(id(schedule.optimizer))
            if record is None or record.steps < MIN_STEPS or schedule.last_epoch > 0 or place is None:
                continue
            if not is_stepped(place.site.file, name):
                problem = (
                    f"{name}, {type(schedule).__name__}, never goes on: no line calls its step, and the rate stays "
                )
                problem += f"{record.rates[-1][0]:g}"
                self.report("schedule-unused", place, name, problem, f"{name}.step() after each epoch", record.steps)


class UnfilledParameter(WatchRule):
    """A parameter of `torch.empty`, which no line fills."""

    max_steps = 1

    def before_step(self, step: OptimizerStep) -> None:
        parts = (part for root in self.facts.names.models() for part in root.module.modules())
        filled = {id(p) for part in parts if is_from_library(part) for p in part._parameters.values()}
        for p in step.record.parameters():
            place = self.facts.names.origin_of_parameter(p) if id(p) not in filled else None
            if place is None or not MADE_EMPTY.search(place.text):
                continue
            path = self.facts.names.name_of_parameter(p)
            name = path.rpartition(".")[2]
            if not is_filled(place.site.file, name):
                problem = (
                    f"{path} {tuple(p.shape)} is what was in memory before: empty gives no values, and no line fills it"
                )
                advice = f"nn.init.normal_(self.{name}, std=0.02) after it, or torch.randn or zeros in place of empty"
                self.report("parameter-unfilled", place, path, problem, advice, tuple(p.shape))


def is_from_library(part: Module) -> bool:
    """Return whether a module is one of the library's own layers, which fill their parameters."""
    code: Operand = getattr(type(part).forward, "__code__", None)
    return code is None or library_files[code.co_filename]


def is_filled(file: str, name: str) -> bool:
    """Return whether a file writes to anything of this name, or fills all parameters of a module."""
    for call in nodes_in(file, ast.Call):
        function = text_of(call.func)
        if function.rpartition(".")[2] in ("apply", "load_state_dict"):
            return True
        if function.endswith("_") or "init" in function:
            texts = [function.rpartition(".")[0], *map(text_of, call.args)]
            if any(name in text.split(".") for text in texts):
                return True
    for loop in nodes_in(file, ast.For):
        texts = [text_of(each) for each in loop.body] if "parameters(" in text_of(loop.iter) else []
        if any(word in text for text in texts for word in ("init", "_(", ".data")):
            return True
    items = nodes_in(file, ast.Subscript)
    return any(isinstance(node.ctx, ast.Store) and name in text_of(node.value) for node in items)


def is_stepped(file: str, name: str) -> bool:
    """Return whether a file calls `step` of anything named so, or passes it on."""
    for call in nodes_in(file, ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "step":
            owner = text_of(call.func.value)
            if name in owner or "sched" in owner.lower():
                return True
        if any(name in text_of(each) for each in (*call.args, *(key.value for key in call.keywords))):
            return True
    return False
