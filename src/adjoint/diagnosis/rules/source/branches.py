"""Rules on where a line stands: breaks and returns within a loop, steps beside a print, counts begun in each turn."""

from __future__ import annotations

import ast

from adjoint.diagnosis.rules.source.text_rule import TextRule, calls_in, name_of
from adjoint.diagnosis.source_expressions import SourceFile, text_of


def has_call(name: str, *nodes: ast.AST) -> bool:
    """Return whether some nodes call a function or a method of this name."""
    return any(name_of(call) == name for call in calls_in(*nodes))


class ForgottenBreak(TextRule):
    """A loop over batches that ends after the first one."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            if isinstance(loop.body[-1], ast.Break) and has_call("backward", *loop.body):
                problem = (
                    f"the loop over {text_of(loop.iter)} ends after its first turn: only one batch of an epoch is used"
                )
                self.blame("loop-ends-at-once", (source, loop.body[-1]), "break", problem, "leave out the break")


class EarlyReturn(TextRule):
    """A function that returns within the loop whose results it adds up."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            if not isinstance(loop.body[-1], ast.Return):
                continue
            last = loop.body[-1]
            sums = [text_of(node.target) for node in loop.body if isinstance(node, ast.AugAssign)]
            names = {each.id for each in ast.walk(last) if isinstance(each, ast.Name)}
            if any(name in names for name in sums):
                problem = (
                    f"the function returns in the first turn of the loop over {text_of(loop.iter)}: the sums are those "
                )
                problem += "of one batch"
                self.blame("loop-ends-at-once", (source, last), "return", problem, "the same line after the loop")


class StepBesidePrint(TextRule):
    """A backward pass or a step in the branch that reports every so many batches, of a loss that all compute."""

    def _check_step(self, source: SourceFile, loop: ast.For, branch: ast.If) -> None:
        """Look for a step in the branch, of gradients that each batch computes and the next one clears."""
        others = [line for line in loop.body if line is not branch]
        steps = [call for call in calls_in(*branch.body) if name_of(call) == "step"]
        is_cleared = has_call("backward", *others) and has_call("zero_grad", *others)
        if steps and is_cleared and not has_call("zero_grad", branch) and not has_call("step", *others):
            problem = f"{text_of(steps[0])} runs where {text_of(branch.test)} alone: the gradients of the other "
            problem += "batches are computed and cleared"
            name = text_of(steps[0].func)
            self.blame("step-in-branch", (source, steps[0]), name, problem, f"{text_of(steps[0])} outside of the if")

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            for branch in loop.body:
                if not isinstance(branch, ast.If) or "%" not in text_of(branch.test) or branch.orelse:
                    continue
                self._check_step(source, loop, branch)
                passes = [call for call in calls_in(*branch.body) if name_of(call) == "backward"]
                if not passes or not has_call("step", *branch.body) or not isinstance(passes[0].func, ast.Attribute):
                    continue
                loss = text_of(passes[0].func.value)
                before = [line for line in loop.body if line.lineno < branch.lineno and isinstance(line, ast.Assign)]
                is_given = any(text_of(line.targets[0]) == loss for line in before)
                is_anew = any(isinstance(x, ast.Assign) and text_of(x.targets[0]) == loss for x in branch.body)
                if is_given and not is_anew and not has_call("backward", *before):
                    problem = f"backward() and step() run where {text_of(branch.test)} alone: the losses of the other "
                    problem += "batches are computed and thrown away"
                    advice = "both ahead of the if, once for each batch"
                    self.blame("step-in-branch", (source, passes[0]), f"{loss}.backward", problem, advice)


class CountsBegunAnew(TextRule):
    """Counts that each turn of a loop sets to 0, and that are read after it."""

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            starts = [line for line in loop.body if isinstance(line, ast.Assign) and is_zero(line.value)]
            sums = {text_of(line.target) for line in loop.body if isinstance(line, ast.AugAssign)}
            for line in starts:
                names = {text_of(part) for target in line.targets for part in getattr(target, "elts", [target])}
                found = [name for name in sorted(names & sums) if not is_read_in(loop, name)]
                if found and is_read_after(source, loop, found[0]):
                    name = found[0]
                    problem = (
                        f"{name} is set to 0 in each turn of the loop over {text_of(loop.iter)}: after it, it has the "
                    )
                    problem += "count of the last batch alone"
                    advice = f"{text_of(line)} ahead of the loop"
                    self.blame("count-begun-anew", (source, line), name, problem, advice)
                    break


def is_read_in(loop: ast.For, name: str) -> bool:
    """Return whether the body of a loop reads a variable."""
    nodes = (each for line in loop.body for each in ast.walk(line))
    return any(isinstance(x, ast.Name) and x.id == name and isinstance(x.ctx, ast.Load) for x in nodes)


def is_read_after(source: SourceFile, loop: ast.For, name: str) -> bool:
    """Return whether a variable is read after a loop, in the same function."""
    nodes = ast.walk(source.scope_of(loop))
    loads = [x for x in nodes if isinstance(x, ast.Name) and x.id == name and isinstance(x.ctx, ast.Load)]
    return any(x.lineno > (loop.end_lineno or 0) for x in loads)


def is_zero(node: ast.expr) -> bool:
    """Return whether a program writes 0, or several of them."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return bool(parts) and all(isinstance(x, ast.Constant) and x.value in (0, 0.0) for x in parts)
