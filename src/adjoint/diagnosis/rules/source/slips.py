"""Rules on slips of writing: a sign for an operator, a comparison the wrong way round."""

from __future__ import annotations

import ast
import os
import re

from adjoint.diagnosis.rules.source.text_rule import TextRule, calls_in, name_of
from adjoint.diagnosis.source_expressions import SourceFile, text_of

HIGH = re.compile(r"(?:^|_)(?:acc|accuracy|f1|auc|auroc|score|iou|miou|dice|psnr|ssim|bleu|reward|r2|precision|recall)")
LOW = re.compile(r"(?:^|_)(?:loss|err|error|mse|rmse|mae|ppl|perplexity)(?:_|$)")
LOSS = re.compile(r"loss|err|cost|mse|nll", re.IGNORECASE)
INPUTS = re.compile(r"^(?:x|adv|delta|img|image|inputs?|perturb|noise)(?:_|$)", re.IGNORECASE)
TRAINED = re.compile(r"(?:^|_)(?:tr|train|training)(?:_|$)")
HELD_OUT = re.compile(r"(?:^|_)(?:val|valid|validation|dev)(?:_|$)")
SHORTCUT = re.compile(r"^(?:identity|residual|shortcut|skip)$")
MIN_LOSSES = 4
BEST = re.compile(r"(?:^|_)(?:best|max|min|highest|lowest)(?:_|$)")


class SignForOperator(TextRule):
    """`loss =+ term`, which is `loss = +term`, and `labels[rows] == 1`, which sets nothing."""

    def read(self, source: SourceFile) -> None:
        for shown in source.nodes_of(ast.Expr):
            compared = shown.value if isinstance(shown.value, ast.Compare) else None
            is_cell = isinstance(source.parents.get(shown, source.tree), ast.Module) and not os.path.isfile(source.name)
            if compared is not None and isinstance(compared.ops[0], ast.Eq) and not is_cell:
                name, right = text_of(compared.left), text_of(compared.comparators[0])
                problem = f"{name} == {right} compares, and nothing takes the result: {name} stays as it was"
                self.blame("sign-for-operator", (source, shown), name, problem, f"{name} = {right}")
        for node in source.nodes_of(ast.Assign):
            if not isinstance(node.value, ast.UnaryOp):
                continue
            sign = {ast.UAdd: "+", ast.USub: "-"}.get(type(node.value.op))
            line = source.lines[node.lineno - 1]
            start = line[: node.value.col_offset + 1].decode() if node.value.lineno == node.lineno else ""
            rest = line[node.value.col_offset + 1 :].decode()
            if sign is None or not start.endswith(f"={sign}") or not rest.startswith(" "):
                continue
            name = text_of(node.targets[0])
            problem = f"{name} ={sign} … is {name} = {sign}…: it gets a new value, and what it had before is lost"
            self.blame("sign-for-operator", (source, node), name, problem, f"{name} {sign}= …")


class SelectionDirection(TextRule):
    """The best state chosen by the lowest accuracy, or by the highest loss."""

    def read(self, source: SourceFile) -> None:
        for node in source.nodes_of(ast.If):
            if not isinstance(node.test, ast.Compare) or len(node.test.ops) != 1:
                continue
            left, right, op = node.test.left, node.test.comparators[0], node.test.ops[0]
            is_less = isinstance(op, (ast.Lt, ast.LtE))
            if BEST.search(name_of(left)) and not BEST.search(name_of(right)):
                left, right, is_less = right, left, not is_less
            metric, best = name_of(left), name_of(right)
            if not BEST.search(best) or not isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                continue
            stored = [text_of(each) for each in node.body if isinstance(each, ast.Assign)]
            is_kept = any(text.startswith(f"{text_of(right)} = {text_of(left)}") for text in stored)
            is_high, is_low = (bool(kind.search(f"{metric}_{best}")) for kind in (HIGH, LOW))
            if is_kept and TRAINED.search(metric):
                self._check_held_out(source, node, metric)
            if not is_kept or is_high == is_low or is_high != is_less:
                continue
            word, way = ("lowest", ">") if is_high else ("highest", "<")
            problem = f"{text_of(right)} follows the {word} {metric} of all: the worst state counts as the best"
            advice = f"if {text_of(left)} {way} {text_of(right)}, with {best} = {'0' if is_high else 'inf'} at first"
            self.blame("worst-state-chosen", (source, node), best, problem, advice)

    def _check_held_out(self, source: SourceFile, node: ast.If, metric: str) -> None:
        """Look for a metric of rows that were held out, where that of training chooses the state."""
        around = source.parents.get(node)
        lines = getattr(around, "body", [])
        names = {text_of(each) for line in lines for each in ast.walk(line) if isinstance(each, ast.Name)}
        kind = HIGH if HIGH.search(metric) else LOW
        others = [name for name in sorted(names) if HELD_OUT.search(name) and kind.search(name)]
        keeps = any(name_of(call) in ("state_dict", "save", "deepcopy") for call in calls_in(*node.body))
        if others and keeps:
            problem = f"{metric} chooses the best state, and {others[0]} has no say: the state that fits the training "
            problem += "best is kept"
            self.blame("chosen-by-training", (source, node), metric, problem, f"if {others[0]} …")


class UphillStep(TextRule):
    """A step by hand that adds the gradient of a loss."""

    def read(self, source: SourceFile) -> None:
        calls = source.calls_of("backward")
        losses = [text_of(call.func.value) for call in calls if isinstance(call.func, ast.Attribute)]
        if not losses or not all(LOSS.search(name) for name in losses):
            return
        sums = (*source.nodes_of(ast.AugAssign), *source.nodes_of(ast.Assign), *source.calls_of("add_"))
        for node in sums:
            target, added = find_sum(node)
            name = "" if target is None else text_of(target).removesuffix(".data")
            if added is None or not name or f"{name}.grad" not in text_of(added) or INPUTS.search(name):
                continue
            text = text_of(added)
            if "sign(" not in text and not re.search(r"(?:^|[(*,= ])-", text):
                problem = f"{text_of(node)} adds the gradient: each step goes up the loss"
                self.blame("uphill-step", (source, node), name, problem, f"{name} -= …, or a minus before the rate")
                return


class TurnedGradients(TextRule):
    """Gradients whose sign is turned before the step, while the loss grows."""

    def read(self, source: SourceFile) -> None:
        losses = self.facts.losses()
        if len(losses) < MIN_LOSSES or losses[-1] <= losses[0]:
            return
        turned: list[ast.expr | ast.stmt] = [*source.calls_of("neg_")]
        turned += [node for node in source.nodes_of(ast.AugAssign) if text_of(node.value) in ("-1", "-1.0")]
        turned += [node for node in source.nodes_of(ast.Assign) if text_of(node.value).startswith("-")]
        for node in turned:
            target = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
            target = node.target if isinstance(node, ast.AugAssign) else target
            target = node.targets[0] if isinstance(node, ast.Assign) else target
            if target is not None and text_of(target).removesuffix(".data").endswith(".grad"):
                problem = f"{text_of(node)} turns the gradient round: the loss went from {losses[0]:.3g} to "
                problem += f"{losses[-1]:.3g}"
                self.blame("uphill-step", (source, node), text_of(target), problem, "leave it out, or maximize=True")


def find_sum(node: ast.AST) -> tuple[ast.expr | None, ast.expr | None]:
    """Return what a statement changes by a sum, and what it adds."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return node.target, node.value
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
        is_same = text_of(node.value.left).removesuffix(".data") == text_of(node.targets[0]).removesuffix(".data")
        return (node.targets[0], node.value.right) if is_same else (None, None)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        return node.func.value, node
    return None, None


class UnusedShortcut(TextRule):
    """A shortcut that a forward pass keeps, and never adds."""

    def read(self, source: SourceFile) -> None:
        for function in source.nodes_of(ast.FunctionDef):
            if function.name != "forward":
                continue
            loads = {x.id for x in ast.walk(function) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Load)}
            for name, lines in source.assignments_in(function).items():
                if SHORTCUT.search(name) and name not in loads:
                    problem = f"{name} is never read: nothing is added to what the layers give"
                    self.blame("shortcut-unused", (source, lines[0]), name, problem, f"out + {name}")


class ExchangedRates(TextRule):
    """A precision that is divided by the false negatives, or a recall by the false positives."""

    def read(self, source: SourceFile) -> None:
        for node in source.nodes_of(ast.Assign):
            name, value = name_of(node.targets[0]).lower(), node.value
            if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Div):
                continue
            names = {
                name_of(each).lower() for each in ast.walk(value.right) if isinstance(each, (ast.Name, ast.Attribute))
            }
            negatives = any(re.search(r"(?:^|_)fn|false_neg", each) for each in names)
            positives = any(re.search(r"(?:^|_)fp|false_pos", each) for each in names)
            is_turned = ("precision" in name and negatives and not positives) or (
                "recall" in name and positives and not negatives
            )
            if is_turned:
                right = "tp / (tp + fp)" if "precision" in name else "tp / (tp + fn)"
                problem = f"{text_of(node)} is the other rate of the two"
                self.blame("rates-exchanged", (source, node), name, problem, right)
                return


class HalvedMetric(TextRule):
    """An F1 or Dice score without its factor of 2: it is half of what it was to be."""

    def read(self, source: SourceFile) -> None:
        for node in source.nodes_of(ast.Assign):
            name, value = name_of(node.targets[0]).lower(), node.value
            if not re.search(r"(?:^|_)(?:f1|dice)(?:_|$)", name) or not isinstance(value, ast.BinOp):
                continue
            if not isinstance(value.op, ast.Div):
                continue
            numbers = [each.value for each in ast.walk(value) if isinstance(each, ast.Constant)]
            below = re.sub(r" \+ (?:[\d.e-]+|\w*(?:eps|smooth)\w*)\b", "", text_of(value.right))
            product = isinstance(value.left, ast.BinOp) and isinstance(value.left.op, ast.Mult)
            is_sum = re.fullmatch(r"\w+ \+ \w+", below) is not None
            if product and is_sum and not any(isinstance(x, (int, float)) and x in (0.5, 2) for x in numbers):
                problem = f"{text_of(value)} is half of the harmonic mean: it is at most 0.5"
                self.blame("metric-halved", (source, node), name, problem, f"2 * {text_of(value)}")
