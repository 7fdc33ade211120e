"""Rules on what is counted and compared: right answers divided by batches, types compared with texts."""

from __future__ import annotations

import ast
import re
from itertools import product

from adjoint.core.runtime.mode import mode
from adjoint.core.typing import Operand
from adjoint.diagnosis.rules.source.splits import HELD_OUT, TRAINED, is_label
from adjoint.diagnosis.rules.source.text_rule import TextRule, name_of
from adjoint.diagnosis.source_expressions import SourceFile, parameter_names, text_of
from adjoint.diagnosis.watch.events import caller_place
from adjoint.diagnosis.watch.facts import Facts

MAX_LAST_SHARE = 0.5  # of the samples of a batch, that the last one has
MEAN = re.compile(r"(?:item\(\)|float\()")
QUOTES = "'"
POSITIVE = re.compile(r"(?:^|_)(?:pos|positive)(?:_|$|s)")
NEGATIVE = re.compile(r"(?:^|_)(?:neg|negative)(?:_|$|s)")


class CountedByBatches(TextRule):
    """The number of right answers, divided by the number of batches."""

    def read(self, source: SourceFile) -> None:
        counts: list[tuple[str, ast.For]] = []  # with the loop that adds them up
        for loop in source.nodes_of(ast.For):
            for node in ast.walk(loop) if isinstance(loop.target, ast.Tuple) else ():
                is_sum = isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)
                if is_sum and isinstance(node, ast.AugAssign) and "/" not in text_of(node.value):
                    counts.append((text_of(node.target), loop))
        for node in source.nodes_of(ast.BinOp) if counts else ():
            if not isinstance(node.op, ast.Div):
                continue
            names = {text_of(each) for each in ast.walk(node.left) if isinstance(each, (ast.Name, ast.Attribute))}
            before = [(name, loop) for name, loop in counts if name in names and loop.lineno < node.lineno]
            if before:
                self._check(source, node, *max(before, key=lambda each: each[1].lineno))

    def _check(self, source: SourceFile, node: ast.BinOp, name: str, loop: ast.For) -> None:
        """Look at what the sum of a loop is divided by."""
        loader, divisor = loader_of(loop.iter), text_of(node.right)
        loaders = {loader_of(each.iter) for each in source.nodes_of(ast.For)} - {loader}
        scope = source.scope_of(loop)
        sums = [each for each in ast.walk(loop) if isinstance(each, ast.AugAssign) and text_of(each.target) == name]
        outer = next((text_of(each.target) for each in source.nodes_of(ast.For) if loop in each.body), "")
        is_dropping = any(
            "drop_last=True" in text_of(line)
            for line in source.nodes_of(ast.Assign)
            if text_of(line.targets[0]) == loader
        )
        if outer and divisor == outer and scope is source.scope_of(node):
            problem = f"{name} adds up the batches of {loader}, and {divisor} counts the turns of the loop around it"
            self.blame("divided-by-others", (source, node), divisor, problem, f"len({loader})")
        elif is_dropping and divisor == f"len({loader}.dataset)":
            problem = f"{loader} leaves out its last samples, drop_last=True, and {divisor} counts all of them"
            self.blame("divided-by-others", (source, node), divisor, problem, "drop_last=False, or count what is read")
        elif not all(is_count(text_of(each.value)) for each in sums):
            is_own = scope is source.scope_of(node) and loader not in parameter_names(scope) and loader.isidentifier()
            others = [each for each in loaders if divisor == f"len({each})" and each.isidentifier()]
            if is_own and others and any(MEAN.search(text_of(each.value)) for each in sums):
                problem = f"{name} adds up the batches of {loader}, and {divisor} is the number of others"
                self.blame("divided-by-others", (source, node), divisor, problem, f"len({loader})")
        elif divisor == f"len({loader})":
            problem = f"{name} counts samples, and len({loader}) batches: the quotient is as many times too "
            problem += "large as a batch has samples"
            self.blame("divided-by-batches", (source, node), divisor, problem, f"len({loader}.dataset)")
        elif any(divisor == f"len({other}.dataset)" for other in loaders):
            problem = f"{name} counts samples of {loader}, and {divisor} is the number of others"
            self.blame("divided-by-others", (source, node), divisor, problem, f"len({loader}.dataset)")


class StaleLoss(TextRule):
    """A loop that computes a loss which it never reads, and adds up that of another loop."""

    def read(self, source: SourceFile) -> None:
        loops = source.nodes_of(ast.For)
        trained = [loop for loop in loops if ".backward(" in text_of(loop)]
        others = [loop for loop in loops if loop not in trained]
        for other, loop in product(others, trained):
            names = [each for each in ast.walk(other) if isinstance(each, ast.Name)]
            stored = {each.id for each in names if isinstance(each.ctx, ast.Store)}
            read = {each.id for each in names if isinstance(each.ctx, ast.Load)}
            parts = [each for each in ast.walk(loop) if isinstance(each, ast.Name)]
            made = {each.id for each in parts if isinstance(each.ctx, ast.Store)}
            lines = [each for each in ast.walk(other) if isinstance(each, ast.Assign)]
            results = [name_of(each.targets[0]) for each in lines if isinstance(each.value, ast.Call)]
            unread = [name for name in results if name and name not in read]
            for node in ast.walk(other) if unread else ():
                text = text_of(node) if isinstance(node, ast.AugAssign) else ""
                stale = [name for name in made - stored if re.search(rf"(?<![\w.]){name}\.item\(", text)]
                if stale and source.scope_of(other) is source.scope_of(loop):
                    problem = f"{stale[0]} is that of the loop at line {loop.lineno}; this one makes {unread[0]}, and "
                    problem += "nothing reads it"
                    self.blame("loss-of-other-loop", (source, node), stale[0], problem, f"{unread[0]}.item()")
                    return


class UnevenMeans(TextRule):
    """Means of batches that an evaluation averages, although its last batch is far smaller."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.ends: dict[int, tuple[int, int]] = {}  # of loops over loaders: the samples of the last batch, of others

    def loader_is_read(self, loader: Operand) -> None:
        """See a pass over a loader begin."""
        size, is_cut = getattr(loader, "batch_size", None), getattr(loader, "drop_last", False)
        if mode.recording or not size or is_cut or not hasattr(loader.dataset, "__len__"):
            return
        rest = len(loader.dataset) % size
        if 0 < rest <= MAX_LAST_SHARE * size < size < len(loader.dataset):
            self.ends[caller_place().site.line] = rest, size

    def read(self, source: SourceFile) -> None:
        if any(text_of(each.value) == "'sum'" for each in source.nodes_of(ast.keyword)):
            return
        loops = [loop for loop in source.nodes_of(ast.For) if loop.lineno in self.ends]
        divisions: list[tuple[ast.AST, ast.expr, ast.expr]] = [
            (node, node.left, node.right) for node in source.nodes_of(ast.BinOp) if isinstance(node.op, ast.Div)
        ]
        divisions += [
            (node, node.target, node.value) for node in source.nodes_of(ast.AugAssign) if isinstance(node.op, ast.Div)
        ]
        for loop, (node, total, count) in product(loops, divisions):
            sums = [each for each in ast.walk(loop) if isinstance(each, ast.AugAssign)]
            texts = [text_of(each.value) for each in sums if text_of(each.target) == text_of(total)]
            is_mean = any(MEAN.search(text) and "*" not in text and "sum" not in text for text in texts)
            if is_mean and text_of(count) == f"len({loader_of(loop.iter)})":
                rest, size = self.ends[loop.lineno]
                problem = f"{text_of(total)} adds up means of batches of {size} and of the last one of {rest}: each "
                problem += f"sample of that counts {size / rest:.3g} times as much as others"
                advice = f"add each mean times its number of samples, and divide by len({loader_of(loop.iter)}.dataset)"
                self.blame("mean-of-means", (source, node), text_of(total), problem, advice)
                return


def is_count(text: str) -> bool:
    """Return whether an expression adds up how often two values are equal."""
    return ("==" in text or ".eq(" in text) and "sum(" in text


def loader_of(node: ast.expr) -> str:
    """Return what a loop reads, past `enumerate` and the like."""
    while isinstance(node, ast.Call) and node.args and name_of(node) in ("enumerate", "tqdm"):
        node = node.args[0]
    return text_of(node)


class NeverEqual(TextRule):
    """A type that is compared with a text, or a layer with a class: never equal, so nothing is initialised."""

    def read(self, source: SourceFile) -> None:
        applied = {text_of(call.args[0]) for call in source.calls_of("apply") if len(call.args) == 1}
        for node in source.nodes_of(ast.Compare):
            if len(node.ops) != 1 or not isinstance(node.ops[0], (ast.Eq, ast.Is)):
                continue
            left, right = node.left, node.comparators[0]
            is_text = isinstance(right, ast.Constant) and isinstance(right.value, str)
            is_type = isinstance(left, ast.Call) and text_of(left.func) == "type" and len(left.args) == 1
            scope = source.scope_of(node)
            arguments = [arg.arg for arg in scope.args.args] if isinstance(scope, ast.FunctionDef) else []
            is_layer = isinstance(left, ast.Name) and left.id in arguments and getattr(scope, "name", "") in applied
            is_class = text_of(right).startswith(("nn.", "torch.nn.")) and not isinstance(right, ast.Call)
            if (is_type and is_text) or (is_layer and is_class):
                what = "a type is never equal to a text" if is_type else "a layer is never equal to its class"
                problem = f"{text_of(node)}: {what}, so the lines below it never run"
                layer = text_of(left.args[0]) if isinstance(left, ast.Call) and left.args else text_of(left)
                kind = f"nn.{text_of(right).strip(QUOTES)}" if isinstance(right, ast.Constant) else text_of(right)
                advice = f"isinstance({layer}, {kind})"
                self.blame("never-equal", (source, node), text_of(left), problem, advice)


class PairOrder(TextRule):
    """A ranking loss that puts the negative item before the positive one."""

    def read(self, source: SourceFile) -> None:
        for call in source.calls_of("logsigmoid", "softplus", "log"):
            name = name_of(call)
            operand: ast.expr | None = call.args[0] if call.args else None
            if isinstance(operand, ast.Call) and name == "log" and name_of(operand) == "sigmoid" and operand.args:
                operand, name = operand.args[0], "logsigmoid"
            if name == "log" or not isinstance(operand, ast.BinOp):
                continue
            sides = [name_of(each).lower() for each in (operand.left, operand.right)]
            wanted = (NEGATIVE, POSITIVE) if name == "logsigmoid" else (POSITIVE, NEGATIVE)
            is_turned = isinstance(operand.op, ast.Sub) and all(
                kind.search(side) for kind, side in zip(wanted, sides, strict=True)
            )
            if is_turned:
                problem = f"{text_of(call)} is made small where the negative item is before the positive one"
                advice = f"{text_of(operand.right)} - {text_of(operand.left)}"
                self.blame("pairs-turned", (source, call), text_of(operand), problem, advice)


class ExponentOfSum(TextRule):
    """A perplexity of the sum of losses, and not of their mean."""

    def read(self, source: SourceFile) -> None:
        for call in source.calls_of("exp"):
            name = text_of(call.args[0]) if len(call.args) == 1 else ""
            added = [each for each in changes_of(source, name) if isinstance(each.op, ast.Add)]
            if not any(".item()" in text_of(each.value) and "*" not in text_of(each.value) for each in added):
                continue
            quotients: list[ast.stmt] = [each for each in changes_of(source, name) if isinstance(each.op, ast.Div)]
            quotients += [
                line
                for line in source.assignments_in(source.scope_of(call)).get(name, ())
                if isinstance(line, ast.Assign) and "/" in text_of(line.value)
            ]
            if not quotients:
                problem = f"{name} adds up the losses of all batches: its exponential grows with their number"
                advice = f"{text_of(call.func)}({name} / batches)"
                self.blame("exponent-of-sum", (source, call), name, problem, advice)


def changes_of(source: SourceFile, name: str) -> list[ast.AugAssign]:
    """Return the statements `name += …` and the like."""
    return [each for each in source.nodes_of(ast.AugAssign) if name and text_of(each.target) == name]


class OtherLabels(TextRule):
    """Predictions for held-out rows that are compared with labels of training."""

    def read(self, source: SourceFile) -> None:
        names_of_file = {node.id.lower() for node in source.nodes_of(ast.Name)}
        if not any(map(HELD_OUT.search, names_of_file)) or not any(map(TRAINED.search, names_of_file)):
            return
        compared: list[tuple[ast.AST, list[ast.expr]]] = [
            (node, [node.left, *node.comparators])
            for node in source.nodes_of(ast.Compare)
            if isinstance(node.ops[0], ast.Eq)
        ]
        compared += [(call, call.args) for call in source.nodes_of(ast.Call)]
        for node, sides in compared:
            if len(sides) != 2:
                continue
            names = [names_behind(source, side) for side in sides]
            for i, (own, other) in enumerate(((names[0], names[1]), (names[1], names[0]))):
                is_held_out = any(map(HELD_OUT.search, own)) and not any(map(TRAINED.search, own))
                is_trained = not any(map(HELD_OUT.search, other)) and all(
                    is_label(each) for each in other if TRAINED.search(each)
                )
                is_prediction = isinstance(sides[i], ast.Call) or len(own) > 1
                label = next((each for each in sorted(other) if TRAINED.search(each) and is_label(each)), "")
                if is_held_out and is_trained and is_prediction and label:
                    rows = next(each for each in sorted(own) if HELD_OUT.search(each))
                    problem = f"predictions for {rows} are compared with {label}: they belong to other rows"
                    self.blame("labels-of-training", (source, node), label, problem, f"the labels of {rows}")
                    return


def names_behind(source: SourceFile, node: ast.expr) -> set[str]:
    """Return the variables in an expression, and those in what gave one of them its value."""
    names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    found = {each.id.lower() for each in names}
    for each in names:
        before = [
            line
            for line in source.assignments_in(source.scope_of(node)).get(each.id, [])
            if isinstance(line, ast.Assign) and line.lineno < each.lineno and isinstance(line.value, ast.Call)
        ]
        if before and not HELD_OUT.search(each.id.lower()) and not TRAINED.search(each.id.lower()):
            found |= {part.id.lower() for part in ast.walk(before[-1].value) if isinstance(part, ast.Name)}
    return found
