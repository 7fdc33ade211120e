"""Rules on what a model gets: a target with the same noise as the input, a random state, arguments that are crossed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import numpy as np

from adjoint.core.graph.source_location import Site
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.source_expressions import SourceFile, parse_source, text_of
from adjoint.diagnosis.watch.events import Backward, ModuleCall
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import DRAWS, FLOW_PASSES
from adjoint.nn.layers.recurrent import RNNBase
from adjoint.nn.module.module import Module

ERRORS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
MIXING = frozenset({"bmm", "softmax", "safe_softmax", "attention"})
PARTS = {
    "positive": re.compile(r"p|(?:\w+_)?(?:pos|positives?)(?:_\w+)?"),
    "negative": re.compile(r"n|(?:\w+_)?(?:neg|negatives?)(?:_\w+)?"),
}
MAX_DISTANCE_RATIO = 3
TRIPLET = ("anchor", "positive", "negative")


class NoisyTarget(WatchRule):
    """A denoiser whose target is its own input."""

    sees_roots_only = True
    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.input: tuple[Tensor, Module] | None = None

    def enter_module(self, call: ModuleCall) -> None:
        x = next((x for x in call.tensors() if is_array(x)), None)
        self.input = None if x is None or x.node is not None or not call.is_recording else (x, call.module)

    def see_call(self, call: LibraryCall) -> None:
        target = call.tensor("target")
        if call.name not in ERRORS or target is None or self.input is None:
            return
        joined = self.facts.flow.maker(self.input[0])
        given = joined.tensors if joined is not None and joined.op == "cat" else [self.input[0]]
        if all(x is not target for x in given):
            return
        made = self.facts.flow.maker(target)
        parts = [] if made is None or made.op not in ("add", "mul") else made.tensors
        behind = [each for x in parts for each in self.facts.flow.makers_behind(x)]
        if any(each.op in DRAWS and each.out.shape == target.shape for each in behind) and len(parts) == 2:
            name = self.facts.names.name_of_module(self.input[1])
            problem = (
                f"the target of {call.name} is the input {tuple(target.shape)} of {name}, with the noise that was "
            )
            problem += "added: nothing teaches it to take the noise away"
            self.report("noisy-target", call.place, "target", problem, "compare with the data before the noise", name)


class RandomState(WatchRule):
    """A recurrent layer that begins with random numbers."""

    modules = (RNNBase,)
    max_passes = FLOW_PASSES

    def enter_module(self, call: ModuleCall) -> None:
        states = call.inputs[1] if len(call.inputs) > 1 else None
        state = states[0] if isinstance(states, tuple) and states else states
        made = self.facts.flow.maker_past_moves(state)
        if made is not None and made.op in DRAWS and call.is_recording and self.facts.iteration:
            name = self.facts.names.name_of_module(call.module)
            problem = (
                f"{name} begins with random numbers {tuple(made.out.shape)} in each pass: its result is another each "
            )
            problem += "time, in evaluation too"
            self.report("random-state", made.place, name, problem, "torch.zeros for the first state", made.out.shape)


class CrossedArguments(WatchRule):
    """Arguments whose names are those of each other's parameters."""

    max_passes = 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.files: list[str] = []

    def begin_backward(self, backward: Backward) -> None:
        self.files.append(backward.place.site.file)

    def finish(self) -> None:
        for file in self.files:
            source = parse_source(file)
            for call, first, second in find_crossed_calls(source) if source is not None else ():
                function = text_of(call.func)
                problem = f"{first} is given to {function} as its {second}, and {second} as its {first}"
                place = Place(Site(file, call.lineno, ""))
                self.report("arguments-crossed", place, first, problem, f"exchange {first} and {second}", function)


def find_crossed_calls(source: SourceFile) -> Iterator[tuple[ast.Call, str, str]]:
    """Yield the calls that exchange two arguments, where no other call of the function has them in their order."""
    parameters: dict[str, list[str]] = {}
    for function in source.nodes_of(ast.FunctionDef):
        names = [each.arg for each in function.args.args]
        parameters[function.name] = names[1:] if names[:1] == ["self"] else names
    triplets = {"triplet_margin_loss"}
    for made in source.calls_of("TripletMarginLoss"):
        statement = source.statement_of(made)
        if isinstance(statement, ast.Assign):
            triplets |= {text_of(target).rpartition(".")[2] for target in statement.targets}
    parameters |= {each: list(TRIPLET) for each in triplets}
    for name, wanted in parameters.items():
        calls = [call for call in source.calls.get(name, ()) if not call.keywords]
        find_name = name_in_triplet if name in triplets else text_of
        found = [(call, find_exchange(wanted, [find_name(each) for each in call.args])) for call in calls]
        if found and all(pair is not None for _, pair in found):
            for node, pair in found:
                if pair is not None:
                    yield node, *pair


def name_in_triplet(node: ast.expr) -> str:
    """Return which part of a triplet an argument is by the names in it; its text where they do not tell."""
    names = [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    parts = [part for part, pattern in PARTS.items() if any(map(pattern.fullmatch, names))]
    return parts[0] if len(parts) == 1 else text_of(node)


def find_exchange(wanted: list[str], given: list[str]) -> tuple[str, str] | None:
    """Return two arguments that stand in each other's place."""
    for i, (want, get) in enumerate(zip(wanted, given, strict=False)):
        if get != want and get in wanted[i + 1 : len(given)]:
            j = wanted.index(get)
            if given[j] == want:
                return get, want
    return None


class TurnedTriplets(WatchRule):
    """Triplets whose positives are much farther from the anchors than their negatives."""

    max_passes = FLOW_PASSES

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.ratios: dict[int, float] = {}
        self.place: Place | None = None

    def see_call(self, call: LibraryCall) -> None:
        anchor, positive, negative = (call.tensor(name) for name in TRIPLET)
        if call.name != "triplet_margin_loss" or anchor is None or positive is None or negative is None:
            return
        near, far = (float(np.sqrt(((anchor.array - x.array) ** 2).sum(-1)).mean()) for x in (positive, negative))
        self.ratios[self.facts.iteration] = near / max(far, 1e-12)
        self.place = call.place

    def finish(self) -> None:
        ratio = min(self.ratios.values()) if len(self.ratios) == FLOW_PASSES else 0.0
        if ratio > MAX_DISTANCE_RATIO and not self.facts.has_found("arguments-crossed"):
            problem = (
                f"the positives are {ratio:.2g} times as far from the anchors as the negatives, before anything is "
            )
            problem += "learned: they are exchanged"
            advice = "triplet_margin_loss(anchor, positive, negative)"
            self.report("arguments-crossed", self.place, "positive", problem, advice, f"{ratio:.2g}")


class JoinedSamples(WatchRule):
    """Features of the same samples that are joined along the batch, and cut off again."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        flow = self.facts.flow
        for made in flow.makers_behind(*backward.roots):
            whole = flow.maker(made.tensors[0]) if made.op in ("slice", "select") and made.tensors else None
            joined = [] if whole is None else [each for each in flow.makers_behind(whole.out) if each.op == "cat"]
            if whole is not None and any(each.op in MIXING for each in flow.makers_behind(whole.out)):
                continue  # the rows that are cut off have a part in the others
            for each in joined:
                rows = each.tensors[0].array.shape[:1]
                alike = all(x.node is not None and x.array.shape[:1] == rows for x in each.tensors)
                total = each.out.array.shape[:1]
                is_cut = made.out.array.shape[:1] == rows and made.tensors[0].array.shape[:1] == total
                is_only = len(flow.users(made.tensors[0])) == 1
                if alike and is_cut and is_only and total[0] == len(each.tensors) * rows[0] > rows[0] > 1:
                    problem = f"{len(each.tensors)} results for the same {rows[0]} samples are joined along the "
                    problem += "batch, and the rows of all but the first are cut off: they change nothing"
                    shape = tuple(each.out.shape)
                    self.report("joined-along-batch", each.place, "cat", problem, "torch.cat(…, dim=1)", shape)
                    return


class JoinedWithItself(WatchRule):
    """A value that is joined with itself, where another one was meant, such as that of a skip connection."""

    max_passes = FLOW_PASSES

    def begin_backward(self, backward: Backward) -> None:
        for made in self.facts.flow.makers_behind(*backward.roots):
            parts = made.tensors if made.op == "cat" else []
            if len(parts) == 2 and parts[0] is parts[1] and parts[0].node is not None:
                shape = tuple(parts[0].shape)
                problem = f"a value {shape} is joined with itself: the second half says nothing new"
                advice = "the value of the other way, such as the encoder's at this size"
                self.report("joined-with-itself", made.place, "cat", problem, advice, shape)
                return
