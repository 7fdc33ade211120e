"""Rules on targets of reinforcement learning: the next value past an episode's end, indices for values, the order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain

from adjoint.core.graph.source_location import Site
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place
from adjoint.diagnosis.rules.dataflow.agents.policies import find_added_target, is_mask
from adjoint.diagnosis.source_expressions import SourceFile, parse_source, text_of
from adjoint.diagnosis.watch.events import Backward, caller_frame
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall
from adjoint.diagnosis.watch.rule import WatchRule
from adjoint.diagnosis.watch.value_flow import FLOW_PASSES, MODULE_CALLS, Made

ENDS = re.compile(r"(?:\w*_)?(?:d|dw|dones?|not_?done|term\w*|trunc\w*|end\w*|fin\w*|nonterm\w*|masks?)", re.IGNORECASE)
ARITHMETIC = frozenset({"mul", "add", "cast"})
MAX_ITEMS = 64  # of a batch that is looked into


class TemporalTarget(WatchRule):
    """A reward plus the next value: of ended episodes too, or the index of the best action in its place."""

    max_passes = FLOW_PASSES

    def see_call(self, call: LibraryCall) -> None:
        found = find_added_target(self.facts, call)
        if found is None:
            return
        target, made = found
        reward, following = self._find_parts(made)
        if reward is None:
            return
        self._check_discount(target, reward, following)
        products = [each for each in following if each.op in ARITHMETIC and each.out.array.dtype.kind == "f"]
        index = next((x for each in products for x in each.tensors if self._is_choice(x)), None)
        if index is not None:
            problem = f"the target {tuple(target.shape)} adds an index of an action, such as {index.array.flat[0]}, to "
            problem += "the reward, and not the value of the action"
            advice = "the values: max(dim).values, or [0] of the pair"
            maker = self.facts.flow.maker_past_moves(index) or made
            self.report("index-as-value", maker.place, "max", problem, advice, tuple(target.shape))
        elif not any(is_mask(x) and not self._is_choice(x) for each in following for x in each.tensors):
            self._check_end(target, reward, made)

    def _check_discount(self, target: Tensor, reward: Tensor, following: list[Made]) -> None:
        """Look for a discount that the reward has, and that the next value has not."""
        scaled = self.facts.flow.maker(reward)
        factors = [] if scaled is None or scaled.op != "mul" else discounts_of(scaled)
        if scaled is not None and factors and not any(discounts_of(each) for each in following if each.op == "mul"):
            problem = (
                f"the reward of the target {tuple(target.shape)} is multiplied by {factors[0]:g}, and the next value "
            )
            problem += "is not: what comes later counts in full"
            advice = f"reward + {factors[0]:g} * (1 - done) * next value"
            self.report("discount-on-reward", scaled.place, "gamma", problem, advice, f"{factors[0]:g}")

    see_written_loss = see_call

    def begin_backward(self, backward: Backward) -> None:
        """Look for an error that is written out, whose target is a reward plus a next value with a history."""
        flow = self.facts.flow
        for term in (term for root in backward.roots for term in flow.terms(root)):
            made = term.made
            error = flow.maker(made.tensors[0]) if made is not None and made.op in ("pow", "square") else None
            if (
                error is None
                or error.op != "sub"
                or len(error.tensors) != 2
                or error.tensors[0].shape != term.value.shape
            ):
                continue
            for target, prediction in (error.tensors, error.tensors[::-1]):
                total = flow.maker_past_moves(target)
                parts = total.tensors if total is not None and total.op == "add" and prediction.node is not None else []
                following = [flow.maker_past_moves(x) for x in parts if x.node is not None]
                is_data = any(x.node is None and x.array.ndim for x in parts)
                if len(following) == 1 and is_data and total is not None and self._is_discounted(following[0]):
                    problem = f"the target {tuple(target.shape)}, a reward plus a discounted value, has a history: the "
                    problem += "gradient moves the target to the prediction"
                    shape = tuple(target.shape)
                    self.report(
                        "target-with-gradient", total.place, "target", problem, "detach() the next value", shape
                    )
                    return

    def _is_discounted(self, made: Made | None) -> bool:
        """Return whether a value is a number below 1 times what a network gave."""
        if made is None or made.op != "mul":
            return False
        is_scaled = any(isinstance(x, float) and 0.5 < x < 1 for x in made.inputs)
        return is_scaled and any(each.function in MODULE_CALLS for each in self.facts.flow.makers_behind(made.out))

    def _find_parts(self, made: Made) -> tuple[Tensor | None, list[Made]]:
        """Return the reward and the ops that gave the other part of a sum; no reward where it is no such sum."""
        flow = self.facts.flow
        for reward, value in (made.tensors, made.tensors[::-1]) if len(made.tensors) == 2 else ():
            behind = list(flow.makers_behind(value))
            if any(each.function in MODULE_CALLS for each in flow.makers_behind(reward)):
                continue
            best = any(each.op in ("argmax", "max", "amax", "gather") for each in behind)
            if best and any(each.function in MODULE_CALLS for each in behind):
                return reward, behind
        return None, []

    def _is_choice(self, x: Tensor) -> bool:
        source = self.facts.flow.maker_past_moves(x)
        return x.array.dtype.kind in "iu" and source is not None and source.op == "argmax"

    def _check_end(self, target: Tensor, reward: Tensor, made: Made) -> None:
        """Look for a tensor of the batch that tells which episodes have ended, and that no op has used."""
        for name, x in values_around(dict(caller_frame().f_locals)):
            if not is_array(x) or x.array.size != target.array.size or x is reward or self.facts.flow.users(x):
                continue
            is_flag = is_mask(x) or not x.array.any()
            if is_flag and x.node is None and ENDS.fullmatch(name):
                self.report(
                    "episode-end-unused",
                    made.place,
                    name,
                    f"the target {tuple(target.shape)} adds the next value to every reward, those of the last steps of "
                    f"an episode too: nothing uses {name}",
                    f"multiply the next value by (1 - {name})",
                    tuple(target.shape),
                )
                return


def values_around(names: dict[str, Operand]) -> Iterator[tuple[str, Operand]]:
    """Yield the names of variables and of the parts of batches, each with its value."""
    for name, value in names.items():
        if isinstance(value, dict):
            yield from ((str(key), part) for key, part in list(value.items())[:MAX_ITEMS])
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            yield from zip(value._fields, value, strict=True)
        else:
            yield name, value


def discounts_of(made: Made) -> list[float]:
    """Return the numbers below 1 by which an op multiplies."""
    return [x for x in made.inputs if isinstance(x, float) and 0.5 <= x < 1]


class ReturnOrder(WatchRule):
    """Returns that are computed from the last reward to the first, and left in that order."""

    max_passes = 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.files: set[str] = set()

    def begin_backward(self, backward: Backward) -> None:
        file = backward.place.site.file
        source = None if file in self.files else parse_source(file)
        self.files.add(file)
        for loop, appended in find_backward_sums(source) if source is not None else ():
            name = text_of(appended)
            problem = f"{name} begins with the return of the last step, for the loop goes back from it: its order is "
            problem += "not that of the steps"
            place = Place(Site(file, appended.lineno, ""))
            self.report("returns-reversed", place, name, problem, f"{name}.insert(0, …), or {name}[::-1]", loop.lineno)


def find_backward_sums(source: SourceFile) -> Iterator[tuple[ast.For, ast.expr]]:
    """Yield the loops from the last step to the first that append a discounted sum to a list nobody turns round."""
    whole = b"\n".join(source.lines).decode()
    for loop in source.nodes_of(ast.For):
        if not re.search(r"reversed\(|\[::-1\]|,\s*-1\)", text_of(loop.iter)):
            continue
        inner = list(chain.from_iterable(ast.walk(line) for line in loop.body))
        sums = {
            text_of(node.targets[0])
            for node in inner
            if isinstance(node, ast.Assign) and is_discounted(node.value, text_of(node.targets[0]))
        }
        for node in inner:
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(node, ast.Call) and isinstance(called, ast.Attribute) and called.attr == "append":
                name = re.escape(text_of(called.value))
                turned = rf"{name}\[::-1\]|{name}\.reverse\(|reversed\({name}\)|flip\w*\("
                if node.args and text_of(node.args[0]) in sums and not re.search(turned, whole):
                    yield loop, called.value


def is_discounted(value: ast.expr, name: str) -> bool:
    """Return whether an expression is a sum with a product of the name."""
    is_sum = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)
    factors = (
        text_of(part)
        for node in ast.walk(value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        for part in (node.left, node.right)
    )
    return is_sum and any(each == name for each in factors)
