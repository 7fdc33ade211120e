"""Rules on what a loop was to change and does not: schedules that stand still, values that are lost, kept or shared."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from adjoint.diagnosis.rules.source.text_rule import TextRule, calls_in, name_of
from adjoint.diagnosis.source_expressions import SourceFile, text_of

SCHEDULED = re.compile(
    r"(?:^|_)(?:lr|rate|eps|epsilon|beta|tau|temp|temperature|kl_weight|anneal|teacher_forcing|tf_ratio|momentum|decay)(?:_|$)"
)
PURE = frozenset({"min", "max", "cos", "exp", "sqrt", "pow", "float", "int", "log", "abs"})
CHECKED = re.compile(r"^(?:print|save|evaluate|validate|test|log)$")
WRITES = re.compile(r"^(?:add_|mul_|div_|copy_|sub_|lerp_|zero_|fill_)$")
STATES = frozenset({"state_dict", "deepcopy", "clone"})
TENSORS = frozenset({"zeros", "ones", "empty", "full", "randn", "rand", "tensor", "zeros_like", "ones_like"})
MIN_PERIOD = 3


class StandingSchedule(TextRule):
    """A rate or probability that each turn of a loop computes from values which the loop does not change."""

    def read(self, source: SourceFile) -> None:
        for line in source.nodes_of(ast.Assign):
            name = name_of(line.targets[0])
            loops = list(loops_around(source, line))
            if not loops or not SCHEDULED.search(name.lower()) or len(line.targets) > 1:
                continue
            value = line.value
            names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
            has_sum = any(isinstance(node, ast.BinOp) for node in ast.walk(value))
            is_plain = not any(
                isinstance(node, (ast.Attribute, ast.Subscript)) and name_of(node) not in PURE
                for node in ast.walk(value)
            )
            is_pure = all(name_of(call) in PURE for call in calls_in(value))
            trains = any(name_of(call) == "backward" for call in calls_in(loops[-1]))
            inputs = names - PURE
            is_formula = has_sum and is_plain and is_pure and (len(inputs) > 1 or isinstance(value, ast.Call))
            if is_formula and trains and inputs and not names & set(changed_in(loops[-1])):
                shown = min(inputs)
                problem = (
                    f"{name} is computed in each turn of the loop at line {loops[-1].lineno}, from values that no "
                )
                problem += f"turn changes: it stays the same, as {shown} does"
                advice = f"change {shown} in the loop, or compute {name} from its own last value"
                self.blame("schedule-stands-still", (source, line), name, problem, advice)


def loops_around(source: SourceFile, node: ast.AST) -> Iterator[ast.For | ast.While]:
    """Yield the loops around a node within its function, the innermost first."""
    while not isinstance(node, (ast.Module, ast.FunctionDef, ast.Lambda, ast.ClassDef)):
        node = source.parents[node]
        if isinstance(node, (ast.For, ast.While)):
            yield node


def changed_in(loop: ast.AST) -> Iterator[str]:
    """Yield the names that a loop gives values."""
    for node in ast.walk(loop):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id


class EveryBut(TextRule):
    """`if epoch % 5:` before what is to happen every fifth time: it happens in all others."""

    def read(self, source: SourceFile) -> None:
        for node in source.nodes_of(ast.If):
            test = node.test
            if not isinstance(test, ast.BinOp) or not isinstance(test.op, ast.Mod) or node.orelse:
                continue
            period = test.right.value if isinstance(test.right, ast.Constant) else 0
            done = next((text_of(call.func) for call in calls_in(*node.body) if is_periodic(call)), "")
            if isinstance(period, int) and period >= MIN_PERIOD and done:
                problem = (
                    f"{text_of(test)} is true in all turns but each {period}th: {done} runs {period - 1} times as "
                )
                problem += "often as it was to"
                self.blame("every-but-one", (source, node), text_of(test), problem, f"if {text_of(test)} == 0:")


def is_periodic(call: ast.Call) -> bool:
    """Return whether a call is one of those that loops make now and then: of a schedule, a test, a report."""
    name = name_of(call)
    owner = text_of(call.func).rpartition(".")[0].lower()
    return CHECKED.match(name) is not None or (name == "step" and "sched" in owner) or name == "load_state_dict"


class LostWrite(TextRule):
    """Two writes into the same part of a tensor, one after the other: the first is lost."""

    def read(self, source: SourceFile) -> None:
        blocks = [
            getattr(node, "body", []) for kind in (ast.FunctionDef, ast.For, ast.With) for node in source.nodes_of(kind)
        ]
        for block in (source.tree.body, *blocks):
            for first, second in pairwise(block):
                if not isinstance(first, ast.Assign) or not isinstance(second, ast.Assign):
                    continue
                one, other = first.targets[0], second.targets[0]
                if not isinstance(one, ast.Subscript) or text_of(one) != text_of(other):
                    continue
                read = {text_of(node) for node in ast.walk(second.value)}
                is_new = not isinstance(first.value, ast.Constant) and text_of(first.value) != text_of(second.value)
                if is_new and text_of(one.value) not in read:
                    problem = f"{text_of(other)} is what line {first.lineno} has written: those values are lost"
                    advice = "another part of it, such as 1::2 beside 0::2"
                    self.blame("write-lost", (source, second), text_of(one.value), problem, advice)


class UnusedState(TextRule):
    """A state that is read from a file, or kept, and that no line puts into a model."""

    def read(self, source: SourceFile) -> None:
        loads = {node.id for node in source.nodes_of(ast.Name) if isinstance(node.ctx, ast.Load)}
        for node in source.nodes_of(ast.Expr):
            if isinstance(node.value, ast.Call) and text_of(node.value.func) in (
                "torch.load",
                "ad.load",
                "adjoint.load",
            ):
                problem = f"{text_of(node.value)} gives the state that the file holds, and nothing takes it: the model "
                problem += "stays as it was made"
                advice = f"model.load_state_dict({text_of(node.value)})"
                self.blame("state-unused", (source, node), "load", problem, advice)
        models = {root.name for root in self.facts.names.models()}
        for line in source.nodes_of(ast.Assign):
            target = line.targets[0]
            if not isinstance(target, ast.Name) or target.id in loads:
                continue
            inner = {name_of(call) for call in calls_in(line.value)}
            if "state_dict" not in inner or not inner <= STATES:
                continue
            loops = list(loops_around(source, line))
            after = [call for call in source.nodes_of(ast.Call) if loops and call.lineno > (loops[-1].end_lineno or 0)]
            if any(text_of(call.func) in models for call in after):
                name = text_of(target)
                problem = f"{name} keeps the weights, and no line reads it: the model goes on with the last ones"
                advice = f"model.load_state_dict({name}) before the model is used"
                self.blame("state-unused", (source, line), name, problem, advice)


class SharedState(TextRule):
    """A state of one model that is changed in place, and loaded into another: the first one changes with it."""

    def read(self, source: SourceFile) -> None:
        given = {
            text_of(call.args[0]): text_of(call.func).rpartition(".")[0]
            for call in source.calls_of("load_state_dict")
            if call.args
        }
        for line in source.nodes_of(ast.Assign):
            value, name = line.value, name_of(line.targets[0])
            if not isinstance(value, ast.Call) or name_of(value) != "state_dict" or name not in given:
                continue
            owner = text_of(value.func).rpartition(".")[0]
            written = [
                call.func.value
                for call in source.nodes_of(ast.Call)
                if isinstance(call.func, ast.Attribute) and WRITES.match(call.func.attr)
            ]
            written += [node.target for node in source.nodes_of(ast.AugAssign)]
            is_written = any(isinstance(x, ast.Subscript) and text_of(x.value) == name for x in written)
            if is_written and given[name] != owner:
                problem = f"{name} is the weights of {owner} themselves: what is written into it changes {owner} too"
                self.blame("state-not-copied", (source, line), name, problem, f"copy.deepcopy({text_of(value)})")


class SharedElements(TextRule):
    """`[torch.zeros(3)] * n`, whose elements are one tensor, and are written in place."""

    def read(self, source: SourceFile) -> None:
        for line in source.nodes_of(ast.Assign):
            value, name = line.value, text_of(line.targets[0])
            if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mult):
                continue
            made = value.left.elts[0] if isinstance(value.left, ast.List) and len(value.left.elts) == 1 else None
            if made is None or name_of(made) not in TENSORS:
                continue
            scope = source.scope_of(line)
            written: list[ast.expr] = [node.target for node in ast.walk(scope) if isinstance(node, ast.AugAssign)]
            written += [
                call.func.value
                for call in calls_in(scope)
                if isinstance(call.func, ast.Attribute) and WRITES.match(call.func.attr)
            ]
            parts = [node for node in ast.walk(scope) if isinstance(node, ast.Subscript)]
            written += [node.value for node in parts if isinstance(node.ctx, ast.Store)]
            if any(isinstance(node, ast.Subscript) and text_of(node.value) == name for node in written):
                problem = f"all elements of {name} are one tensor: what is written into one is in all of them"
                advice = f"[{text_of(made)} for _ in range({text_of(value.right)})]"
                self.blame("shared-memory", (source, line), name, problem, advice)


class MergedGradients(TextRule):
    """Gradients of a second backward pass that are read with those of the first still in them."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            passes = [i for i, line in enumerate(loop.body) if is_pass(line)]
            for i, j in pairwise(passes):
                between = [text_of(line) for line in loop.body[i + 1 : j]]
                after = [text_of(line) for line in loop.body[j + 1 :]]
                reads = [text for text in between if ".grad" in text and "grad.zero_" not in text]
                values = {text.partition("=")[2] for text in reads}
                again = [text for text in after if ".grad" in text and text.partition("=")[2] in values]
                is_cleared = any("zero" in text or "grad = None" in text for text in between)
                if again and not is_cleared:
                    problem = (
                        "the gradients are read after this pass as after the one before, and not cleared between: "
                    )
                    problem += "they are the sum of both"
                    advice = "optimizer.zero_grad() before it, or torch.autograd.grad for each loss"
                    self.blame("gradients-merged", (source, loop.body[j]), "grad", problem, advice)


def is_pass(line: ast.stmt) -> bool:
    """Return whether a statement is a call of `backward`."""
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Call) and name_of(line.value) == "backward"
