"""Rules on what loops update: counters that stand still, averages that nobody reads, steps away from a copy."""

from __future__ import annotations

import ast
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.rules.source.standing import changed_in, loops_around
from adjoint.diagnosis.rules.source.text_rule import TextRule, calls_in, name_of
from adjoint.diagnosis.source_expressions import SourceFile, text_of
from adjoint.diagnosis.watch.facts import Facts, is_array
from adjoint.diagnosis.watch.library_calls import LibraryCall

COUNTERS = re.compile(r"^(?:self\.)?(?:t|step|steps|n_steps|it|iteration|n_iter|num_updates)$")
BEFORE = re.compile(r"prev|old|last|past", re.IGNORECASE)
MASKS = re.compile(r"^(?:train|tr)(?:ing)?_(?:mask|idx|index|indices|ids|nodes)$")
PASSES = frozenset({"backward", "grad"})
MAX_PARTS = 8


def trains(loop: ast.AST) -> bool:
    """Return whether a loop computes gradients."""
    return any(name_of(call) in PASSES for call in calls_in(loop))


class StandingCounter(TextRule):
    """A correction by the power of a counter that no turn of the loop counts."""

    def read(self, source: SourceFile) -> None:
        for node in source.nodes_of(ast.BinOp):
            name = text_of(node.right) if isinstance(node.op, ast.Pow) else ""
            loops = list(loops_around(source, node)) if COUNTERS.match(name) else []
            if not loops or not trains(loops[-1]) or name in changed_in(loops[-1]):
                continue
            starts = source.assignments_in(source.scope_of(node)).get(name, [])
            if any(isinstance(line, ast.Assign) and line.lineno < node.lineno for line in starts):
                problem = (
                    f"{text_of(node)} is the same in each turn of the loop at line {loops[-1].lineno}: no line counts "
                )
                problem += f"{name}"
                self.blame("schedule-stands-still", (source, node), name, problem, f"{name} += 1 in each step")
                return


class UnusedMomentum(TextRule):
    """An average of gradients that no line reads: the step takes the gradient itself."""

    def read(self, source: SourceFile) -> None:
        for line in source.nodes_of(ast.Assign):
            target = line.targets[0]
            if not isinstance(target, ast.Name) or ".grad" not in text_of(line.value):
                continue
            scope = source.scope_of(line)
            own = {id(x) for x in ast.walk(line)}
            names = [x for x in ast.walk(scope) if isinstance(x, ast.Name) and x.id == target.id]
            reads = [x for x in names if isinstance(x.ctx, ast.Load)]
            if reads and all(id(x) in own for x in reads) and any(loops_around(source, line)):
                problem = f"{target.id} adds up gradients, and no line reads it: the step takes the last gradient alone"
                step = next((node for node in source.nodes_of(ast.AugAssign) if ".grad" in text_of(node.value)), line)
                self.blame("result-unused", (source, step), target.id, problem, f"{target.id} in place of the gradient")
                return


class StepAway(TextRule):
    """Weights that go away from a copy which was trained: `p += eps * (p - q)`."""

    def read(self, source: SourceFile) -> None:
        steps: list[tuple[ast.AST, ast.expr, ast.expr]] = [
            (node, node.target, node.value) for node in source.nodes_of(ast.AugAssign) if isinstance(node.op, ast.Add)
        ]
        calls = [call for call in source.calls_of("add_") if call.args]
        steps += [(call, call.func.value, call.args[0]) for call in calls if isinstance(call.func, ast.Attribute)]
        for node, target, value in steps:
            name = text_of(target).removesuffix(".data")
            for part in (x for x in ast.walk(value) if isinstance(x, ast.BinOp) and isinstance(x.op, ast.Sub)):
                sides = [text_of(x).removesuffix(".data") for x in (part.left, part.right)]
                is_copy = re.fullmatch(r"[\w.]+", sides[1]) is not None and not BEFORE.search(sides[1])
                is_turned = any(isinstance(x, ast.UnaryOp) and isinstance(x.op, ast.USub) for x in ast.walk(value))
                if sides[0] == name and is_copy and not is_turned:
                    problem = (
                        f"{text_of(node)} moves {name} away from {sides[1]}: their difference grows with each turn"
                    )
                    self.blame("step-away", (source, node), name, problem, f"{sides[1]} - {sides[0]}")
                    return


class UnusedMask(TextRule):
    """Rows of training that no line chooses: the loss is of all rows, those that are held out too."""

    def read(self, source: SourceFile) -> None:
        losses = [line for line in source.nodes_of(ast.Assign) if "loss" in name_of(line.targets[0]).lower()]
        for name in sorted({node.id for node in source.nodes_of(ast.Name) if MASKS.match(node.id)}):
            loads = [x for x in source.nodes_of(ast.Name) if x.id == name and isinstance(x.ctx, ast.Load)]
            is_read = [
                x
                for x in loads
                if not (
                    isinstance(source.parents[x], ast.UnaryOp)
                    or (
                        isinstance(source.parents[x], ast.Subscript)
                        and isinstance(getattr(source.parents[x], "ctx", None), ast.Store)
                    )
                )
            ]  # nor where it is filled, or turned into that of others
            trained = [line for line in losses if any(trains(loop) for loop in loops_around(source, line))]
            if (
                not is_read
                and trained
                and any(isinstance(x.ctx, ast.Store) for x in source.nodes_of(ast.Name) if x.id == name)
            ):
                problem = f"no line reads {name}: the loss is of all rows, those that are to test the model too"
                advice = f"out[{name}] and y[{name}] in the loss"
                self.blame("trained-on-held-out", (source, trained[0]), name, problem, advice)


class AveragedClasses(TextRule):
    """The mean of class numbers, which is another class: that of 0 and 2 is 1."""

    def read(self, source: SourceFile) -> None:
        for call in source.calls_of("round"):
            text = text_of(call)
            if re.search(r"argmax\(.*\.(?:float|double)\(\)\.(?:mean|median)\(", text):
                problem = (
                    "the class numbers of several models are averaged: the mean of 0 and 2 is class 1, which none of "
                )
                problem += "them chose"
                advice = "average the probabilities and take their argmax, or torch.mode of the class numbers"
                self.blame("class-numbers-averaged", (source, call), "argmax", problem, advice)


class EarlyNoiseEnd(TextRule):
    """Steps back from noise that go upwards: the one without noise, which is to be the last, comes first."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            name = text_of(loop.target)
            bounds = loop.iter.args if isinstance(loop.iter, ast.Call) and text_of(loop.iter.func) == "range" else []
            ends = [
                node
                for node in loop.body
                if isinstance(node, ast.If) and text_of(node.test) in (f"{name} > 0", f"{name} != 0")
            ]
            draws = [
                node for node in ends if any(name_of(call) in ("randn", "randn_like") for call in calls_in(*node.body))
            ]
            if len(bounds) in (1, 2) and draws and not trains(loop):
                problem = f"{name} goes up, and no noise is added where it is 0: the last step back comes first"
                advice = f"for {name} in reversed({text_of(loop.iter)})"
                self.blame("steps-upwards", (source, loop), name, problem, advice)


class DoubledShare(TextRule):
    """An average of two values that both have the same share: it grows with each turn."""

    def read(self, source: SourceFile) -> None:
        for call in source.calls_of("add_"):
            kept = call.func.value if isinstance(call.func, ast.Attribute) else None
            share = next((text_of(each.value) for each in call.keywords if each.arg == "alpha"), "")
            is_scaled = isinstance(kept, ast.Call) and name_of(kept) == "mul_"
            factor = text_of(kept.args[0]) if is_scaled and isinstance(kept, ast.Call) and kept.args else ""
            if share and factor == share and share not in ("0.5", "1 / 2"):
                problem = f"both values have the share {share}: both sum to more than 1, and the average grows"
                self.blame("average-factor", (source, call), share, problem, f"alpha=1 - {share}")


class UnusedOrder(TextRule):
    """A permutation that is drawn and that no line reads: the samples come as they lie."""

    def read(self, source: SourceFile) -> None:
        loads = {node.id for node in source.nodes_of(ast.Name) if isinstance(node.ctx, ast.Load)}
        for line in source.nodes_of(ast.Assign):
            target, made = line.targets[0], line.value
            is_drawn = isinstance(made, ast.Call) and name_of(made) in ("randperm", "permutation")
            if isinstance(target, ast.Name) and is_drawn and target.id not in loads and not target.id.startswith("_"):
                problem = f"{target.id} is drawn, and no line reads it: the samples come in the order in which they lie"
                self.blame("result-unused", (source, line), target.id, problem, f"x[{target.id}], and so their targets")


class LostBatch(TextRule):
    """Steps through the rows that end a batch too early: the last one is never read."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            bounds = loop.iter.args if isinstance(loop.iter, ast.Call) and text_of(loop.iter.func) == "range" else []
            end = bounds[1] if len(bounds) == 3 else None
            is_short = (
                isinstance(end, ast.BinOp) and isinstance(end.op, ast.Sub) and text_of(end.right) == text_of(bounds[-1])
            )
            name = text_of(loop.target)
            parts = [text_of(x) for x in ast.walk(loop) if isinstance(x, ast.Slice)]
            is_batch = any(text == f"{name}:{name} + {text_of(bounds[-1])}" for text in parts) if bounds else False
            if is_short and is_batch and trains(loop) and len({text for text in parts if name in text}) == 1:
                problem = f"{text_of(loop.iter)} ends before the last {text_of(bounds[-1])} rows: no step reads them"
                right = f"range({text_of(bounds[0])}, {text_of(end.left) if isinstance(end, ast.BinOp) else ''}, "
                self.blame("rows-left-out", (source, loop), name, problem, f"{right}{text_of(bounds[-1])})")


class LastCount(TextRule):
    """A count that each turn of a loop sets anew, and that is divided by what all turns add up to."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            sums = {text_of(line.target) for line in ast.walk(loop) if isinstance(line, ast.AugAssign)}
            for line in (each for each in ast.walk(loop) if isinstance(each, ast.Assign)):
                name, value = text_of(line.targets[0]), text_of(line.value)
                if "==" not in value or "sum(" not in value or name in sums or name in value:
                    continue
                starts = [
                    x for x in source.nodes_of(ast.Assign) if x.lineno < loop.lineno and name in text_of(x.targets[0])
                ]
                is_read = any(
                    isinstance(x.op, ast.Div) and text_of(x.left) == name and text_of(x.right) in sums
                    for x in source.nodes_of(ast.BinOp)
                    if x.lineno > (loop.end_lineno or 0)
                )
                if is_read and starts and source.scope_of(starts[-1]) is source.scope_of(loop):
                    problem = f"{name} is that of the last batch alone, and is divided by what all batches add up to"
                    self.blame("count-begun-anew", (source, line), name, problem, f"{name} += …")
                    return


class UnreadPart(TextRule):
    """A part of each batch that no line reads, where a loss takes another part in its place."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.parts: list[Tensor] = []  # of the last batch
        self.kinds: dict[int, tuple[tuple[int, ...], str]] = {}  # shape and dtype of each part of the first one
        self.targets: dict[int, set[tuple[int, ...]]] = {}  # by the part, the shapes of what is compared with it
        self.seen: list[tuple[int, int]] = []  # the pass and the part of each loss

    def batch_is_given(self, batch: Operand) -> None:
        """See the batch that a loader gives."""
        if isinstance(batch, (tuple, list)) and 1 < len(batch) <= MAX_PARTS and all(is_array(x) for x in batch):
            self.parts = list(batch)
            for i, x in enumerate(batch):
                self.kinds.setdefault(i, (x.array.shape, x.array.dtype.kind))

    def see_call(self, call: LibraryCall) -> None:
        x, target = call.tensor("input"), call.tensor("target")
        if x is None or target is None or x.node is None:
            return
        for i, part in enumerate(self.parts):
            if part.array is target.array:
                self.targets.setdefault(i, set()).add(x.array.shape)
                self.seen.append((self.facts.iteration, i))

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            target = loop.target
            if isinstance(target, ast.Tuple) and isinstance(target.elts[-1], ast.Tuple):
                target = target.elts[-1]
            names = [name_of(x) for x in target.elts] if isinstance(target, ast.Tuple) else []
            if len(names) != len(self.kinds) or not trains(loop):
                continue
            loads = {x.id for line in loop.body for x in ast.walk(line) if isinstance(x, ast.Name)}
            for i, name in enumerate(names):
                if not name or name in loads or name.startswith("_"):
                    continue
                self._check(source, loop, i, names)

    def _check(self, source: SourceFile, loop: ast.For, i: int, names: list[str]) -> None:
        """Look for a part in the place of the one that no line reads."""
        twice = [j for j in self.targets if max((self.seen.count(x) for x in self.seen if x[1] == j), default=0) > 1]
        shape, kind = self.kinds[i]
        own = self.targets.get(0, set())
        taken = 0 if kind == "f" and shape in own and self.kinds[0] == (shape, kind) else None
        taken = next((j for j in twice if self.kinds[j][1] == kind), taken)
        if taken is None:
            return
        lines = [line for line in ast.walk(loop) if isinstance(line, ast.Assign)]
        uses = [
            line
            for line in lines
            if re.search(r"loss|criterion|entropy|mse|l1", text_of(line.value))
            and re.search(rf"\b{names[taken]}\b", text_of(line.value))
        ]
        problem = f"no line reads {names[i]} {shape} of each batch, and the loss takes {names[taken]} in its place"
        self.blame("target-unread", (source, uses[0] if uses else loop), names[i], problem, f"{names[i]} as the target")
