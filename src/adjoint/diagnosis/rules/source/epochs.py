"""Rules on loops over epochs: totals and counters never set back, iterators that are used up, idle variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from adjoint.diagnosis.rules.source.text_rule import TextRule, name_of
from adjoint.diagnosis.source_expressions import SourceFile, text_of

STARTS = frozenset({"zeros", "zeros_like", "init_hidden", "new_zeros", "randn"})
USED_UP = frozenset({"iter", "zip", "map", "filter", "enumerate", "reversed"})


def nested_loops(source: SourceFile) -> Iterator[tuple[ast.For, ast.For]]:
    """Yield the loops of a program that lie in another, with that one."""
    for inner in source.nodes_of(ast.For):
        outer: ast.AST | None = inner
        while (outer := source.parents.get(outer or inner)) is not None:
            if isinstance(outer, ast.For):
                yield outer, inner


def assigns(nodes: list[ast.stmt], name: str) -> bool:
    """Return whether some statements give a variable a new value."""
    for each in (each for node in nodes for each in ast.walk(node)):
        targets = each.targets if isinstance(each, ast.Assign) else []
        names = [text_of(part) for target in targets for part in getattr(target, "elts", [target])]
        if name in names:
            return True
    return False


class RunningTotal(TextRule):
    """A sum over the batches of an epoch that goes on in the next one."""

    def read(self, source: SourceFile) -> None:
        for outer, inner in nested_loops(source):
            sums = [node for node in inner.body if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)]
            after = outer.body[outer.body.index(inner) + 1 :] if inner in outer.body else []
            for node in sums:
                name = text_of(node.target)
                quotients = [
                    each
                    for later in after
                    for each in ast.walk(later)
                    if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div) and text_of(each.left) == name
                ]
                lengths = f"len({text_of(inner.iter)})", f"len({text_of(inner.iter)}.dataset)"
                if any(text_of(each.right) in lengths for each in quotients) and not assigns(outer.body, name):
                    start = self.find_start(source, outer, name)
                    if start is not None:
                        problem = f"{name} is set to 0 once, before the loop over {text_of(outer.target)}: each epoch "
                        problem += "adds to the sum of those before, and divides it by the batches of one"
                        advice = f"{name} = 0.0 at the start of each turn of the loop over {text_of(outer.target)}"
                        self.blame("total-not-reset", (source, start), name, problem, advice)

    def find_start(self, source: SourceFile, outer: ast.For, name: str) -> ast.stmt | None:
        """Return the line ahead of a loop that sets a sum to 0."""
        statements = source.assignments_in(source.scope_of(outer)).get(name, [])
        before = [each for each in statements if each.lineno < outer.lineno and isinstance(each, ast.Assign)]
        return before[-1] if before and "0" in text_of(before[-1]) else None


class Patience(TextRule):
    """A counter of epochs without progress that an epoch with progress does not set back."""

    def read(self, source: SourceFile) -> None:
        loops: list[ast.For | ast.While] = [*source.nodes_of(ast.For), *source.nodes_of(ast.While)]
        for loop in loops:
            nodes = list(ast.walk(loop))
            limits = {text_of(node.left) for node in nodes if isinstance(node, ast.Compare)}
            for node in nodes:
                if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
                    continue
                best = text_of(node.test.comparators[0]), text_of(node.test.left)
                is_progress = any(
                    isinstance(each, ast.Assign) and text_of(each.targets[0]) in best and text_of(each.value) in best
                    for each in node.body
                )
                self._check_branch(source, node, limits if is_progress else set())
                counts = [each for each in node.orelse if isinstance(each, ast.AugAssign)]
                for count in counts if is_progress else ():
                    name = text_of(count.target)
                    if name in limits and not assigns(loop.body, name):
                        problem = f"{name} counts all epochs without progress: one with progress does not set it back"
                        advice = f"{name} = 0 beside {text_of(node.body[0])}"
                        self.blame("patience-not-reset", (source, count), name, problem, advice)

    def _check_branch(self, source: SourceFile, node: ast.If, limits: set[str]) -> None:
        """Look for a counter that grows with each progress, and is set back without one."""
        resets = {text_of(x.targets[0]) for x in node.orelse if isinstance(x, ast.Assign) and text_of(x.value) == "0"}
        for count in (each for each in node.body if isinstance(each, ast.AugAssign)):
            name = text_of(count.target)
            if name in resets & limits:
                problem = (
                    f"{name} counts the epochs with progress, and one without sets it back: the training ends when it "
                )
                problem += "goes well"
                self.blame(
                    "patience-not-reset", (source, count), name, problem, f"{name} = 0 here, += 1 in the other branch"
                )


class UsedIterator(TextRule):
    """An iterator that is made before the loop over epochs, and empty from the second one on."""

    def read(self, source: SourceFile) -> None:
        for outer, inner in nested_loops(source):
            read = inner.iter
            if isinstance(read, ast.Call) and name_of(read) == "enumerate" and read.args:
                read = read.args[0]
            if not isinstance(read, ast.Name) or assigns(outer.body, read.id):
                continue
            statements = source.assignments_in(source.scope_of(inner)).get(read.id, [])
            made = next((each for each in statements if isinstance(each, ast.Assign)), None)
            value = None if made is None else made.value
            is_iterator = isinstance(value, ast.GeneratorExp) or (
                isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in USED_UP
            )
            if made is not None and is_iterator and len(statements) == 1 and made.lineno < outer.lineno:
                name = read.id
                problem = f"{name} is an iterator: the first turn of the loop over {text_of(outer.target)} uses it up, "
                problem += "and the others get nothing"
                advice = f"for … in {value_inside(value)}, in each turn anew, or a list"
                self.blame("iterator-used-up", (source, made), name, problem, advice)


def value_inside(value: ast.expr | None) -> str:
    """Return what an iterator goes through."""
    return text_of(value.args[0]) if isinstance(value, ast.Call) and len(value.args) == 1 else "it"


class OverlappingBatches(TextRule):
    """Slices `x[i:i + n]` for the numbers i of batches: each begins one row after the last."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            if not isinstance(loop.target, ast.Name):
                continue
            call = loop.iter
            if not isinstance(call, ast.Call) or name_of(call) != "range" or len(call.args) != 1:
                continue
            index, count = loop.target.id, self._resolve(source, call.args[0], loop)
            for node in (each for line in loop.body for each in ast.walk(line)) if "//" in count else ():
                if not isinstance(node, ast.Subscript):
                    continue
                part = node.slice
                if isinstance(part, ast.Slice) and part.lower is not None and part.upper is not None:
                    low, high = text_of(part.lower), text_of(part.upper)
                    size = high.removeprefix(f"{low} + ")
                    if low == index and size != high and f"// {size}" in count and not assigns(loop.body, index):
                        problem = f"{index} counts batches, and {text_of(node)} begins at row {index}: two batches "
                        problem += f"share all rows but one, and only the first {count} are read"
                        advice = f"{text_of(node.value)}[{low} * {size}:({low} + 1) * {size}]"
                        self.blame("batches-overlap", (source, node), text_of(node.value), problem, advice)
                        break

    def _resolve(self, source: SourceFile, node: ast.expr, near: ast.AST) -> str:
        """Return an expression, or the one that a variable was given."""
        if isinstance(node, ast.Name):
            statements = source.assignments_in(source.scope_of(near)).get(node.id, [])
            values = [each.value for each in statements if isinstance(each, ast.Assign)]
            return text_of(values[-1]) if values else ""
        return text_of(node)


class UnusedStep(TextRule):
    """A loop over time steps that reads the same one in each turn."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            if not isinstance(loop.target, ast.Name):
                continue
            call = loop.iter
            if not isinstance(call, ast.Call) or name_of(call) != "range":
                continue
            inside = [each for line in loop.body for each in ast.walk(line)]
            if any(isinstance(each, ast.Name) and each.id == loop.target.id for each in inside):
                continue
            ranged = {each.id for arg in call.args for each in ast.walk(arg) if isinstance(each, ast.Name)}
            for node in inside:
                if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
                    continue
                parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                is_fixed = any(isinstance(part, ast.Constant) and isinstance(part.value, int) for part in parts)
                is_read = isinstance(node.ctx, ast.Load) and not assigns(loop.body, node.value.id)
                if node.value.id in ranged and is_fixed and is_read and len(parts) > 1:
                    step = loop.target.id
                    problem = f"the loop over {step} does not use it: each turn reads {text_of(node)}, the same step"
                    texts = [step if isinstance(part, ast.Constant) else text_of(part) for part in parts]
                    advice = f"{node.value.id}[{', '.join(texts)}]"
                    self.blame("step-not-used", (source, node), text_of(node), problem, advice)
                    break


class FixedBatch(TextRule):
    """A loop over the begins of batches that cuts out the same rows in each turn."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            begins = loop.iter.args if isinstance(loop.iter, ast.Call) and name_of(loop.iter) == "range" else []
            inside = [each for line in loop.body for each in ast.walk(line)]
            is_used = any(isinstance(each, ast.Name) and each.id == text_of(loop.target) for each in inside)
            trains = any(isinstance(each, ast.Call) and name_of(each) == "backward" for each in inside)
            if len(begins) != 3 or is_used or not trains:
                continue
            for node in (each for each in inside if isinstance(each, ast.Subscript)):
                part = node.slice
                bounds = [x for x in (part.lower, part.upper) if x is not None] if isinstance(part, ast.Slice) else []
                if bounds and all(isinstance(x, ast.Constant) for x in bounds):
                    step = text_of(loop.target)
                    problem = f"the loop over {step} does not use it: each turn reads {text_of(node)}, the same batch"
                    advice = f"{text_of(node.value)}[{step}:{step} + {text_of(begins[2])}]"
                    self.blame("same-batch", (source, node), text_of(node), problem, advice)
                    break


class StateReset(TextRule):
    """A state that each time step begins anew, so that only the last step counts."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            if not re.search(r"size\(|shape\[|seq|steps|len\(", text_of(loop.iter)):
                continue
            scope = source.scope_of(loop)
            if not isinstance(scope, ast.FunctionDef) or scope.name != "forward":
                continue
            for i, node in enumerate(loop.body):
                value = node.value if isinstance(node, ast.Assign) else None
                if not isinstance(node, ast.Assign) or not isinstance(value, ast.Call) or name_of(value) not in STARTS:
                    continue
                name = text_of(node.targets[0])
                later = [line for line in loop.body[i + 1 :] if isinstance(line, ast.Assign)]
                takes = [
                    line
                    for line in later
                    if isinstance(line.value, ast.Call)
                    and name in {text_of(each) for each in ast.walk(line.value)}
                    and name in {text_of(each) for target in line.targets for each in ast.walk(target)}
                ]
                if takes:
                    step = text_of(loop.target)
                    problem = (
                        f"{name} begins anew in each turn of the loop over {step}: only the last step has a part in "
                    )
                    problem += "the result"
                    self.blame("state-reset", (source, node), name, problem, f"this line ahead of the loop over {step}")


class OverwrittenLoss(TextRule):
    """A loss that takes the place of another one, whose parameters get no gradient then."""

    def read(self, source: SourceFile) -> None:
        effects = [finding for finding in self.facts.report if finding.kind == "no-gradient" and finding.place]
        for effect in effects:
            line = effect.place.site.line if effect.place is not None else 0
            for scope in source.parents:
                block = getattr(scope, "body", None)
                first = next((n for n in block if n.lineno == line), None) if isinstance(block, list) else None
                if not isinstance(first, ast.Assign) or not isinstance(block, list):
                    continue
                name = text_of(first.targets[0])
                second = find_overwriting(block[block.index(first) + 1 :], name)
                if second is not None:
                    self.facts.report.findings.remove(effect)
                    problem = (
                        f"{name} gets a new value, and what line {line} gave it is lost: {effect.name} and those like "
                    )
                    problem += "it never get a gradient"
                    self.blame("loss-overwritten", (source, second), name, problem, f"{name} = {name} + …")
                    return


def find_overwriting(lines: list[ast.stmt], name: str) -> ast.Assign | None:
    """Return the first statement that gives a name a value without its former one, if nothing reads that before."""
    for line in lines:
        for node in ast.walk(line):
            if isinstance(node, ast.Assign) and text_of(node.targets[0]) == name:
                is_read = any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node.value))
                return None if is_read else node
        if any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(line)):
            return None
    return None
