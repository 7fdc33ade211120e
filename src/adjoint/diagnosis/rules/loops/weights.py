"""Rules on weights: replaced or drawn anew while a model runs, or much too large at the start."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

import numpy as np

from adjoint.core.graph.node import Leaf
from adjoint.core.graph.source_location import Site
from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand, Operands
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.writes import instruction_of_write, place_of_write
from adjoint.diagnosis.source_expressions import SourceFile, parse_source, text_of
from adjoint.diagnosis.watch.events import ModuleCall, OptimizerStep, caller_place, root_mean_square
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.nn.layers.convolution import Conv1d, Conv2d
from adjoint.nn.layers.embedding import Embedding
from adjoint.nn.layers.linear import Linear
from adjoint.nn.module.module import Module

MAX_ELEMENTS = 1 << 16  # of a weight whose values are compared
MIN_ELEMENTS = 8
MAX_ALIKE = 0.3  # the correlation of weights with those that were drawn in their place
MAX_GAIN = 6.0  # the deviation of a layer's outputs, where its inputs have 1
MIN_INPUTS = 16
MIN_ZEROS = 3  # gradients
WRITES = ("normal_", "uniform_", "copy_", "fill_", "zeros_", "ones_", "set_")


class ReplacedWeights(WatchRule):
    """A parameter that each call of a model replaces by another one, or draws anew."""

    sees_roots_only = True
    max_passes = 2

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.before: dict[str, tuple[Operand, Array | None]] = {}
        self.found: dict[tuple[str, str], tuple[Place | None, int]] = {}

    def enter_module(self, call: ModuleCall) -> None:
        self.before = {}
        if call.is_recording and call.module.training:
            for name, p in call.module.named_parameters():
                if is_array(p):
                    is_small = MIN_ELEMENTS <= p.array.size <= MAX_ELEMENTS
                    self.before[name] = p, p.array.copy() if is_small and p._version >= 0 else None

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        if call.parent is not None or not self.before:
            return
        root = self.facts.names.name_of_module(call.module)
        for name, p in call.module.named_parameters():
            old, values = self.before.get(name, (None, None))
            if old is None:
                continue
            what = "replaced" if old is not p else "drawn" if is_redrawn(values, p.array) else ""
            if what:
                place = find_write(call.module, name)
                key = what, f"{root}.{name}"
                self.found[key] = place, self.found.get(key, (place, 0))[1] + 1
        self.before = {}

    def finish(self) -> None:
        for (what, name), (place, count) in self.found.items():
            if count < 2:
                continue
            if what == "replaced":
                problem = f"each call of the model makes {name} a new parameter: the optimizer goes on with the one it "
                problem += "was given, which nobody uses any more"
                advice = "use the changed values without an assignment: F.linear(x, F.normalize(self.fc.weight))"
            else:
                problem = f"each call of the model writes new values into {name}: what the steps learn is lost"
                advice = "write initial values once, in __init__"
            self.report("weights-overwritten", place, name, problem, advice, count)


def is_redrawn(before: Array | None, now: Array) -> bool:
    """Return whether values have nothing to do with those before."""
    if before is None or before.shape != now.shape or np.array_equal(before, now):
        return False
    a, b = before.ravel() - before.mean(), now.ravel() - now.mean()
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return size == 0 or abs(float(a @ b)) / size < MAX_ALIKE


def find_write(model: Module, path: str) -> Place | None:
    """Return the line in the forward of a model, or of one of its parts, that writes a parameter."""
    for source, function in find_forwards(model):
        for node in ast.walk(function):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES:
                targets = [node.func.value, *node.args[:1]]
            elif isinstance(node, ast.Call) and text_of(node.func).rpartition(".")[2].endswith("_"):
                targets = node.args[:1]
            texts = [text_of(each).removesuffix(".data").removeprefix("self.") for each in targets]
            if any(path == text or path.endswith(f".{text}") for text in texts):
                return Place(Site(source.name, getattr(node, "lineno", 0), ""))
    return None


def find_forwards(model: Module) -> Iterator[tuple[SourceFile, ast.FunctionDef]]:
    """Yield the functions `forward` of the user's classes in a model."""
    for kind in dict.fromkeys(type(part) for part in model.modules()):
        code = getattr(kind.forward, "__code__", None)
        source = None if code is None or "adjoint" in kind.__module__ else parse_source(code.co_filename)
        for function in source.nodes_of(ast.FunctionDef) if source is not None else ():
            if code is not None and source is not None and function.lineno == code.co_firstlineno:
                yield source, function


class ClampedParameters(WatchRule):
    """A parameter all of whose values are beyond the limit of a clamp: it never gets a gradient but 0."""

    ops = frozenset({"clamp_range"})

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.places: dict[int, tuple[Tensor, Place]] = {}
        self.sizes: dict[int, list[float | None]] = {}  # of its gradients

    def see_op(self, op: Op, inputs: Operands, out: Tensor) -> None:
        x = inputs[0]
        is_recorded = type(x.node) is Leaf and out.node is not None and out is not x
        if is_recorded and x.array.size and (x.array != out.array).all():
            self.places.setdefault(id(x), (x, caller_place()))

    def before_step(self, step: OptimizerStep) -> None:
        for key in self.places.keys() & step.sizes.keys():
            self.sizes.setdefault(key, []).append(step.sizes[key])

    def finish(self) -> None:
        for key, (parameter, place) in self.places.items():
            sizes = self.sizes.get(key, [])
            if len(sizes) >= MIN_ZEROS and not any(sizes):
                name = self.facts.names.name_of_parameter(parameter)
                problem = f"all of {name} is beyond the limit of a clamp: its gradient is 0 in each step"
                advice = "a sigmoid for values between limits, or a first value inside"
                self.report("zero-gradient", place, name, problem, advice, 0)


class InitialScale(WatchRule):
    """Weights of linear layers and convolutions that are many times too large at the start."""

    max_steps = 1

    def before_step(self, step: OptimizerStep) -> None:
        if self.facts.steps:
            return
        for root in self.facts.names.models():
            parts = list(root.module.modules())
            if any("Norm" in type(part).__name__ for part in parts):
                continue
            large = [(gain_of(part), part) for part in parts if type(part) in (Linear, Conv1d, Conv2d)]
            large = [(gain, part) for gain, part in large if gain > MAX_GAIN]
            for part in parts:
                if type(part) is Embedding and is_array(part.weight) and root_mean_square(part.weight.array) > MAX_GAIN:
                    self._report_vectors(part)
            if large:
                self._report(max(gain for gain, _ in large), large[0][1], len(large))

    def _report_vectors(self, part: Module) -> None:
        weight: Operand = part._parameters["weight"]
        name, size = self.facts.names.name_of_module(part), root_mean_square(weight.array)
        problem = f"the vectors of {name} have a deviation of {size:.3g} at the start, where 1 is usual"
        place = place_of_write(instruction_of_write(weight))
        is_drawn = place is not None and any(f"{draw}(" in place.text for draw in ("normal_", "uniform_"))
        if is_drawn:  # and no vectors of data
            advice = "the initial values of the layer, or nn.init.normal_(weight, std=0.02)"
            self.report("initial-weights-too-large", place, f"{name}.weight", problem, advice, f"{size:.3g}")

    def _report(self, gain: float, part: Module, count: int) -> None:
        weight: Operand = part._parameters["weight"]
        made = self.facts.names.origin_of_parameter(weight)
        inputs = math.prod(weight.shape[1:])
        deviation = float(weight.array.std())
        name = self.facts.names.name_of_module(part)
        problem = f"the weights of {name} have a deviation of {deviation:.3g} at the start, where {inputs} inputs ask "
        problem += f"for {math.sqrt(2 / inputs):.2g}: each layer makes its values {gain:.3g} times as large"
        place = place_of_write(instruction_of_write(weight)) or made
        advice = "nn.init.kaiming_normal_(weight), or the initial values of the layer"
        self.report("initial-weights-too-large", place, f"{name}.weight", problem, advice, f"{deviation:.3g}")


def gain_of(layer: Module) -> float:
    """Return how many times larger a layer makes values, from the deviation of its weights."""
    weight = layer._parameters.get("weight")
    if weight is None or not is_array(weight) or math.prod(weight.shape[1:]) < MIN_INPUTS:
        return 0.0
    return float(np.sqrt(np.mean(np.square(weight.array))) * math.sqrt(math.prod(weight.shape[1:])))
