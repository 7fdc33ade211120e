"""Rules on layers: one in several places, copies of weights that were to be shared, two with nothing between them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import numpy as np

from adjoint.core.graph.source_location import definition_site
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.source_expressions import parse_source, text_of
from adjoint.diagnosis.watch.events import Backward, ModuleCall, OptimizerStep, caller_place
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.names import Names
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.source_lines import line_of
from adjoint.nn.containers.containers import ModuleList, Sequential
from adjoint.nn.layers.convolution import Conv1d, Conv2d
from adjoint.nn.layers.linear import Linear
from adjoint.nn.module.module import Module

MAX_WALKED = 2000
MIN_WEIGHTS = 4
SAMPLE = 256  # elements that tell most weights apart
SIAMESE = re.compile(r"siam|twin", re.IGNORECASE)
SAME = 1e-4  # relative distance of gradients


class RepeatedLayer(WatchRule):
    """A layer that stands several times in a container: `[layer] * n`, or copies with the same parameters."""

    max_steps = 1

    def before_step(self, step: OptimizerStep) -> None:
        for root in self.facts.names.models():
            for path, part in root.module.named_modules():
                if isinstance(part, (ModuleList, Sequential)):
                    self._check(".".join(filter(None, (root.name, path))), part)

    def _check(self, name: str, container: Module) -> None:
        counts: dict[tuple[int, ...], list[str]] = {}
        for key, part in container._modules.items():
            parameters = tuple(id(p) for p in part.parameters()) if part is not None else ()
            if parameters:
                counts.setdefault(parameters, []).append(key)
        repeated = max(counts.values(), key=len, default=[])
        if len(repeated) > 1:
            part = container._modules[repeated[0]]
            problem = f"{len(repeated)} layers of {name} are one and the same {type(part).__name__}: they share their "
            problem += "parameters"
            advice = "make each anew: nn.ModuleList([nn.Linear(…) for _ in range(n)])"
            place = self.facts.names.origin_of_module(container)
            self.report("same-layer-repeated", place, name, problem, advice, len(repeated))


class EqualWeights(WatchRule):
    """Weights of two layers that begin with the same values and get the same gradients: they stay alike forever."""

    max_steps = 1

    def before_step(self, step: OptimizerStep) -> None:
        known: dict[tuple[object, ...], Tensor] = {}
        for p in (each for each in step.record.parameters() if isinstance(each, Tensor)):
            grad = p._grad
            if p.array.ndim < 2 or p.array.size < MIN_WEIGHTS or grad is None or not np.ptp(p.array.flat[:SAMPLE]):
                continue
            other = known.setdefault((p.array.shape, p.array.flat[:SAMPLE].tobytes()), p)
            if other is p or not np.array_equal(p.array, other.array):
                continue
            other_grad: Operand = other._grad
            if grad.array.any() and np.allclose(grad.array, other_grad.array, SAME, SAME * np.abs(grad.array).max()):
                one, two = map(self.facts.names.name_of_parameter, (other, p))
                problem = f"{two} begins with the values of {one}, and gets the same gradient: both learn the same"
                place = self.facts.names.origin_of_parameter(p)
                advice = "make each anew, in place of copies of one"
                self.report("same-initial-values", place, two, problem, advice, tuple(p.shape))
                return


class SharedDefault(WatchRule):
    """A layer with parameters as a default argument, which all objects of a class share."""

    max_steps = 1

    def before_step(self, step: OptimizerStep) -> None:
        for root in self.facts.names.models():
            seen: dict[int, Module] = {}
            for part in root.module.modules():
                function: Operand = type(part).__init__
                defaults = (*(getattr(function, "__defaults__", None) or ()),)
                for value in defaults:
                    if not isinstance(value, Module) or all(value is not each for each in part._modules.values()):
                        continue
                    if next(value.parameters(), None) is None and next(value.buffers(), None) is None:
                        continue  # an activation, which all may share
                    if id(value) in seen:
                        key = next(key for key, each in part._modules.items() if each is value)
                        kind = type(part).__name__
                        problem = (
                            f"all {kind} objects share one {key}, the default argument of {kind}: it is made once, "
                        )
                        problem += "with the class"
                        advice = f"{key}=None, and make the layer in __init__"
                        place = Place(definition_site(function.__code__))
                        self.report("same-layer-repeated", place, key, problem, advice, len(seen) + 1)
                    seen[id(value)] = part


class LostSharing(WatchRule):
    """Two parameters of different layers with the same values: a copy where one weight was to be shared."""

    max_steps = 1

    def before_step(self, step: OptimizerStep) -> None:
        if self.facts.steps:
            return
        for root in self.facts.names.models():
            found: dict[tuple[int, ...], list[tuple[str, Operand, type]]] = {}
            for path, part in root.module.named_modules():
                for name, p in part._parameters.items():
                    if p is not None and p.array.ndim >= 2 and p.array.size >= 4 and type(p.array) is np.ndarray:
                        full = ".".join(filter(None, (root.name, path, name)))
                        found.setdefault(tuple(p.shape), []).append((full, p, type(part)))
            for same in found.values():
                self._compare(same)

    def _compare(self, same: list[tuple[str, Operand, type]]) -> None:
        for i, (first, p, kind) in enumerate(same):
            for second, q, other in same[i + 1 :]:
                if p is q or kind is other or np.ptp(p.array) == 0 or not np.array_equal(p.array, q.array):
                    continue
                self.report(
                    "weight-sharing-lost",
                    find_copy(second, q, self.facts.names) or self.facts.names.origin_of_parameter(q),
                    second,
                    f"{second} {tuple(q.shape)} has the values of {first}, but is another parameter: from the first "
                    "step on they differ",
                    f"assign the parameter itself: {second} = {first}",
                    tuple(q.shape),
                )


class UnsharedTwins(WatchRule):
    """A siamese network whose branches are alike, and have weights of their own."""

    max_steps = 1

    def before_step(self, step: OptimizerStep) -> None:
        for root in self.facts.names.models() if not self.facts.steps else ():
            if not SIAMESE.search(type(root.module).__name__):
                continue
            parts = [(name, part) for name, part in root.module._modules.items() if part is not None]
            for i, (first, one) in enumerate(parts):
                for second, other in parts[i + 1 :]:
                    if len(list(one.modules())) > 2 and one is not other and is_alike(one, other):
                        self._report(root.module, f"{root.name}.{first}", f"{root.name}.{second}", other)
                        return

    def _report(self, model: Module, first: str, second: str, part: Module) -> None:
        count = sum(p.numel() for p in part.parameters())
        problem = f"{second} is built like {first}, with {count} weights of its own: equal inputs get different vectors"
        advice = f"call {first} for both inputs"
        place = self.facts.names.origin_of_module(part)
        self.report("twins-not-shared", place, second, problem, advice, count)


def is_alike(one: Module, other: Module) -> bool:
    """Return whether two modules have parameters of the same names and shapes, and none in common."""
    shapes = [{name: tuple(p.shape) for name, p in each.named_parameters()} for each in (one, other)]
    ids = [{id(p) for p in each.parameters()} for each in (one, other)]
    return bool(shapes[0]) and shapes[0] == shapes[1] and not ids[0] & ids[1]


def find_copy(name: str, parameter: Operand, names: Names) -> Place | None:
    """Return the line that gave a parameter the values of another: an assignment to it, or a call with its name."""
    made = names.origin_of_parameter(parameter)
    source = None if made is None else parse_source(made.site.file)
    tail = ".".join(name.split(".")[-2:])  # decoder.weight
    if source is None:
        return None
    writes: list[tuple[ast.stmt | ast.expr, ast.expr]] = [
        (node, target) for node in source.nodes_of(ast.Assign) for target in node.targets
    ]
    calls = source.calls_of("copy_", "set_")
    writes += [(call, call.func.value) for call in calls if isinstance(call.func, ast.Attribute)]
    found = (node for node, target in writes if text_of(target).removesuffix(".data").endswith(tail))
    return next((line_of(source.name, node) for node in found), None)


@dataclass
class LayerPair:
    """Two linear layers of which one gets the result of the other."""

    first: Module
    second: Module
    node: Operand  # of the value between them
    place: Place | None


class MissingActivation(WatchRule):
    """Two linear layers, or convolutions, in a row, which are no more than one."""

    modules = (Linear, Conv1d, Conv2d)
    max_passes = 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.results: dict[Operand, tuple[Module, Module | None]] = {}  # the layer and the caller, by the node
        self.pairs: list[LayerPair] = []
        self.found: list[LayerPair] = []  # whose result nothing else uses

    def enter_module(self, call: ModuleCall) -> None:
        if self.facts.iteration or type(call.module) not in self.modules or not call.is_recording:
            return
        x = next(iter(call.tensors()), None)
        known = self.results.get(x.node) if x is not None and x.node is not None else None
        caller = None if call.parent is None else call.parent.module
        if x is None or known is None or known[1] is not caller or known[0] is call.module:
            return
        first: Operand = known[0]
        second: Operand = call.module
        is_pair = type(first) is type(second)
        if isinstance(first, Linear):
            is_pair = is_pair and first.out_features >= min(first.in_features, second.out_features)
        else:  # pointwise and grouped ones are parts of one that is factored
            is_pair = (
                is_pair and first.groups == second.groups == 1 and min(*first.kernel_size, *second.kernel_size) > 1
            )
        if is_pair:
            place = None if isinstance(caller, Sequential) else call.place or caller_place()
            self.pairs.append(LayerPair(first, second, x.node, place))

    def leave_module(self, call: ModuleCall, output: Operand) -> None:
        is_first = self.facts.iteration == 0 and type(call.module) in self.modules
        if is_first and isinstance(output, Tensor) and output.node is not None:  # None where the call failed
            caller = None if call.parent is None else call.parent.module
            self.results[output.node] = call.module, caller

    def begin_backward(self, backward: Backward) -> None:
        if self.pairs and not self.facts.data_reads:  # what is written through .data is no result as it is
            users = count_users(backward)
            for pair in self.pairs:
                if users.get(pair.node) == 1:
                    self.found.append(pair)
        self.results, self.pairs = {}, []

    def finish(self) -> None:
        for pair in self.found if not self.facts.has_found("result-unused") else ():
            self._report(pair, self.facts.names)

    def _report(self, pair: LayerPair, names: Names) -> None:
        first, second = names.name_of_module(pair.first), names.name_of_module(pair.second)
        kind = "linear layers" if isinstance(pair.first, Linear) else "convolutions"
        problem = f"{second} gets the result of {first} as it is: two {kind} in a row are one"
        advice = f"put an activation between them: {second}(F.relu({first}(x)))"
        place = pair.place or names.origin_of_module(pair.second)
        self.report("no-activation", place, second, problem, advice, 2)


def count_users(backward: Backward) -> dict[Operand, int]:
    """Return how many nodes of a graph use each of its nodes."""
    stack: list[Operand] = [root.node for root in backward.roots]
    users: dict[Operand, int] = {}
    while stack and len(users) < MAX_WALKED:
        for parent in getattr(stack.pop(), "parents", ()):
            if parent is not None:
                users[parent] = users.get(parent, 0) + 1
                if users[parent] == 1:
                    stack.append(parent)
    return users
