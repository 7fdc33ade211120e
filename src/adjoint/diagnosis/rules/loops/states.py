"""Rules on states: a state dict that was never copied, one that loads nothing, a target network that never follows."""

from __future__ import annotations

import ast
import re
import weakref
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise

import numpy as np

from adjoint.core.graph.source_location import Site
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands
from adjoint.diagnosis.findings import Place, place_of_frame
from adjoint.diagnosis.operands import MISSING, evaluate
from adjoint.diagnosis.rules.settings import EPOCHS, find_loop_variable
from adjoint.diagnosis.source_expressions import SourceFile, parse_source, text_of
from adjoint.diagnosis.watch.events import ModuleCall, OptimizerStep, caller_frame, caller_place
from adjoint.diagnosis.watch.facts import Facts, address_of, is_array
from adjoint.diagnosis.watch.frames import find_expression, user_frames
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import line_of, nodes_in
from adjoint.nn.module.module import Module

MIN_RESETS = 4  # loads of one state
ALIAS_STEP = 2  # of an optimizer, at which copies of models are looked for
COPIES = re.compile(
    r"(?:^|_)(?:base|baseline|init|initial|original|untrained|random|pretrained|ref|reference|teacher|target|old|ema|frozen|momentum|shadow|best)(?:_|$|model|net)"
)
MIN_STEPS = 10  # after which a target network counts as never updated, if no line does it


class LoadedStates(WatchRule):
    """A state dict that is the model's own memory, whose names are all others, or that takes each epoch back."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.resets: dict[
            int, tuple[Operand, list[int]]
        ] = {}  # the state, and the steps before each load, by the model

    def state_is_loaded(
        self, module: Operand, state_dict: Operand, strict: bool = True, *args: object, **kwargs: object
    ) -> None:
        """See a call of `load_state_dict`."""
        if not isinstance(module, Module) or not isinstance(state_dict, Mapping):
            return
        self._note_reset(module, state_dict)
        own = dict(module.named_parameters(remove_duplicate=False))
        given = {name: value for name, value in state_dict.items() if isinstance(value, Tensor)}
        name = describe_argument()
        if given and own and not strict and not own.keys() & given.keys():
            problem = f"none of the {len(given)} names of {name} is one of the model's: strict=False loads nothing "
            problem += f"({next(iter(given))}, and not {next(iter(own))})"
            advice = "rename the keys, and look at the missing_keys that load_state_dict returns"
            self.report("nothing-loaded", caller_place(), f"load_state_dict({name})", problem, advice, len(given))
        shared = [key for key, p in own.items() if key in given and is_same_memory(p, given[key])]
        if self.facts.steps and shared and len(shared) == len(own):
            problem = (
                f"{name} is the memory of the model itself: it changed with each step, and loading it does nothing"
            )
            advice = "copy it when you take it: copy.deepcopy(model.state_dict())"
            taken = next(find_takings(caller_place(), name), None)
            self.report("state-not-copied", taken or caller_place(), name, problem, advice, len(shared))

    def _note_reset(self, module: Module, state: Operand) -> None:
        """Look for the same state that is loaded in each epoch: what was learned in it is lost."""
        known, steps = self.resets.setdefault(id(module), (state, []))
        if known is not state or self.facts.steps in steps:
            return
        steps.append(self.facts.steps)
        loop = find_loop_variable(caller_place())
        if len(steps) == MIN_RESETS and loop is not None and EPOCHS.fullmatch(loop):
            name = self.facts.names.name_of_module(module)
            problem = f"{name} gets the same state in each turn of the loop over {loop}, {len(steps)} times by now: "
            problem += "what was learned is lost"
            self.report("model-made-anew", caller_place(), name, problem, "load it once, before the loop", len(steps))


def find_takings(near: Place, name: str) -> Iterator[Place]:
    """Yield the lines that give a name a state dict."""
    for node in nodes_in(near.site.file, ast.Assign):
        if "state_dict()" in text_of(node.value):
            targets = [each for target in node.targets for each in ast.walk(target) if isinstance(each, ast.expr)]
            if any(text_of(each) == name for each in targets):
                yield line_of(near.site.file, node)


def is_same_memory(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors begin at the same address."""
    return is_array(one) and is_array(other) and one.array.size > 0 and address_of(one) == address_of(other)


def describe_argument() -> str:
    """Return the text of the first argument of the call that the user's line makes."""
    found = find_expression(caller_frame())
    node = None if found is None else found[1]
    return text_of(node.args[0]) if isinstance(node, ast.Call) and node.args else "the state dict"


class TargetNetwork(WatchRule):
    """A copy of a network that gives the targets of temporal differences, and that no line updates, or each step."""

    ops = frozenset({"max", "amax", "max_pair", "argmax", "gather"})
    sees_roots_only = True
    max_passes = 3

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.outputs: dict[int, tuple[weakref.ref[Tensor], Module, Place | None]] = {}
        self.targets: dict[int, tuple[Module, Operand, Place]] = {}
        self.loads: dict[int, list[tuple[int, Place]]] = {}  # the step and the line of each copy

    def state_is_loaded(self, module: Operand, *args: object, **kwargs: object) -> None:
        """See `load_state_dict()`."""
        state = args[0] if args else kwargs.get("state_dict")
        values = state.values() if isinstance(state, Mapping) else ()
        weight = next((x.array for x in values if is_array(x) and x.array.ndim > 1), None)
        trained = (p for record in self.facts.optimizers.values() for p in record.parameters() if is_array(p))
        if weight is not None and any(np.array_equal(p.array, weight) for p in trained):  # no mixture of two
            self.loads.setdefault(id(module), []).append((self.facts.steps, place_of_frame(caller_frame())))

    def _check_loads(self, target: Module) -> None:
        """Look for a target that gets the weights of the trained network in each step."""
        loads = self.loads.get(id(target), [])
        if len(loads) < MIN_STEPS or any(after[0] - before[0] != 1 for before, after in pairwise(loads)):
            return
        name = self.facts.names.name_of_module(target)
        problem = f"{name} gets new weights in each of {len(loads)} steps: it is the trained network itself, and the "
        problem += "targets move with it"
        advice = "every so many steps alone, if step % 500 == 0, or a soft update"
        self.report("target-updated-each-step", loads[-1][1], name, problem, advice, len(loads))

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if call.parent is None and isinstance(output, Tensor) and output.node is None and self.facts.iteration < 3:
            self.outputs[id(output)] = weakref.ref(output), call.module, call.place

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        known = self.outputs.get(id(inputs[0])) if self.outputs else None
        if known is None or known[0]() is not inputs[0] or id(known[1]) in self.targets:
            return
        first = next((p for p in known[1].parameters() if is_array(p) and p.array.ndim > 1), None)
        if first is not None:
            self.targets[id(known[1])] = known[1], (first, first.array.copy()), known[2] or caller_place()

    def finish(self) -> None:
        facts = self.facts
        trained = facts.find_optimizers()
        online = [
            root.module for root in facts.names.models() if any(id(p) in trained for p in root.module.parameters())
        ]
        for target, (first, before), place in self.targets.values():
            shapes = [tuple(p.shape) for p in target.parameters()]
            is_copy = any(
                [tuple(p.shape) for p in each.parameters()] == shapes for each in online if each is not target
            )
            if not is_copy or any(id(p) in trained for p in target.parameters()):
                continue
            self._check_loads(target)
            name = facts.names.name_of_module(target)
            source = parse_source(place.site.file)
            if facts.steps < MIN_STEPS or not np.array_equal(first.array, before) or source is None:
                continue
            if not is_updated(source, name.rpartition(".")[2]):
                problem = (
                    f"{name} gives the targets of {facts.steps} steps and is as it was at the first: no line copies "
                )
                problem += "the weights of the trained network into it"
                advice = f"{name}.load_state_dict(…) of the trained network every so many steps, or a soft update"
                self.report("target-never-updated", place, name, problem, advice, facts.steps)


def is_updated(source: SourceFile, name: str) -> bool:
    """Return whether a line of a program may give the network of this name other weights after it was made."""
    functions = [each for each in source.nodes_of(ast.FunctionDef) if each.name != "__init__"]
    scopes = [source.tree, *(each for each in functions if is_used(source, each.name))]
    return any(gives_weights(node, name) for scope in scopes for node in statements_of(scope))


def is_used(source: SourceFile, function: str) -> bool:
    """Return whether a program names a function anywhere but at its definition."""
    return (
        function.startswith("__")
        or any(each.id == function for each in source.nodes_of(ast.Name))
        or any(each.attr == function for each in source.nodes_of(ast.Attribute))
    )


def statements_of(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function or a module, without those of the functions in it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.FunctionDef):
            yield child
            yield from statements_of(child)


def gives_weights(node: ast.AST, name: str) -> bool:
    """Return whether a call or a loop may write the weights of the network of this name."""
    if isinstance(node, ast.Call):
        called = node.func
        texts = [text_of(each) for each in (*node.args, *(k.value for k in node.keywords))]
        if isinstance(called, ast.Attribute) and called.attr == "load_state_dict" and name in text_of(called.value):
            return True
        is_optimizer = isinstance(called, ast.Attribute) and "optim" in text_of(called.value)
        return not is_optimizer and any(is_passed(text, name) for text in texts)
    if isinstance(node, (ast.For, ast.comprehension)) and name in text_of(node.iter):
        body = node.body if isinstance(node, ast.For) else []
        return not all("requires_grad" in text_of(each) for each in body)
    return False


def is_passed(text: str, name: str) -> bool:
    """Return whether an argument is the network itself, or its parameters or state."""
    return text.rpartition(".")[2] == name or f"{name}.parameters(" in text or f"{name}.state_dict(" in text


class AliasedModel(WatchRule):
    """A reference, teacher or target that is the trained model itself, under another name."""

    max_steps = ALIAS_STEP + 1

    def before_step(self, step: OptimizerStep) -> None:
        if step.number != ALIAS_STEP:
            return
        frame = caller_frame()
        source = parse_source(frame.f_code.co_filename, frame.f_globals)
        trained = {id(p) for p in step.record.parameters()}
        for node in source.nodes_of(ast.Assign) if source is not None else ():
            value = node.value if len(node.targets) == 1 else None
            target = node.targets[0]
            name = text_of(target).rpartition(".")[2] if isinstance(target, (ast.Name, ast.Attribute)) else ""
            is_shallow = isinstance(value, ast.Call) and text_of(value.func) in ("copy.copy", "copy") and value.args
            value = value.args[0] if is_shallow and isinstance(value, ast.Call) else value
            if not isinstance(value, (ast.Name, ast.Attribute)) or not COPIES.search(name) or source is None:
                continue
            model = next((v for v in map(partial(evaluate, value), user_frames(frame)) if v is not MISSING), None)
            copy = next((v for v in map(partial(evaluate, target), user_frames(frame)) if v is not MISSING), None)
            is_trained = isinstance(copy, Module) and any(id(p) in trained for p in copy.parameters())
            if (copy is model or is_shallow) and is_trained and is_used(source, name):
                what = "has the parameters of" if is_shallow else "is"
                problem = (
                    f"{text_of(target)} {what} {text_of(value)} itself, which is trained: both change with each step"
                )
                advice = f"a copy of it: copy.deepcopy({text_of(value)})"
                place = Place(Site(source.name, value.lineno, ""))
                self.report("model-not-copied", place, text_of(target), problem, advice, step.number)


class ForgottenStates(WatchRule):
    """A state dict that is updated and never loaded: the model does not see it."""

    def finish(self) -> None:
        files = [each.step_place.site.file for each in self.facts.optimizers.values() if each.step_place is not None]
        for source in map(parse_source, dict.fromkeys(files)):
            if source is not None:
                self._find_methods(source)
                self._find_updates(source)

    def _find_methods(self, source: SourceFile) -> None:
        """Report the method `state_dict` itself where its result was meant."""
        for node in source.nodes_of(ast.Attribute):
            around = source.parents.get(node) if node.attr == "state_dict" else None
            is_called = isinstance(around, ast.Call) and around.func is node
            if isinstance(around, (ast.Assign, ast.Call)) and not is_called:
                place = Place(Site(source.name, node.lineno, ""))
                problem = f"{text_of(node)} is the method itself, not the state that it gives: nothing is kept"
                self.report("method-not-called", place, text_of(node), problem, f"{text_of(node)}()", "")

    def _find_updates(self, source: SourceFile) -> None:
        """Report `update` of the dict that a model gave, where no call gets the dict afterwards."""
        for call in source.calls_of("update"):
            if not isinstance(call.func, ast.Attribute):
                continue
            owner = text_of(call.func.value)
            if owner.endswith(".state_dict()") or (is_state(source, owner) and not is_argument(source, owner)):
                problem = f"update() of {owner} changes a dict and not the model: nothing is loaded"
                place = Place(Site(source.name, call.func.lineno, ""))
                self.report("nothing-loaded", place, owner, problem, "load_state_dict(…) of the model", owner)


def is_state(source: SourceFile, name: str) -> bool:
    """Return whether a statement gives a name what `state_dict()` returns."""
    around = [source.parents.get(call) for call in source.calls_of("state_dict")]
    return any(isinstance(each, ast.Assign) and text_of(each.targets[0]) == name for each in around)


def is_argument(source: SourceFile, name: str) -> bool:
    """Return whether any call gets the value of a name."""
    given = (each for call in source.nodes_of(ast.Call) for each in (*call.args, *(k.value for k in call.keywords)))
    return any(isinstance(each, (ast.Name, ast.Attribute)) and text_of(each) == name for each in given)
