"""Rules on slips of writing: a sign for an operator, a comparison the wrong way round, parts that overlap."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from adjoint.diagnosis.rules.source.text_rule import TextRule, name_of
from adjoint.diagnosis.source_expressions import SourceFile, text_of

HIGH = re.compile(r"(?:^|_)(?:acc|accuracy|f1|auc|auroc|score|iou|miou|dice|psnr|ssim|bleu|reward|r2|precision|recall)")
LOW = re.compile(r"(?:^|_)(?:loss|err|error|mse|rmse|mae|ppl|perplexity)(?:_|$)")
BEST = re.compile(r"(?:^|_)(?:best|max|min|highest|lowest)(?:_|$)")
TRAINED = re.compile(r"(?:^|_)(?:tr|train|training)(?:_|$)")
HELD_OUT = re.compile(r"(?:^|_)(?:te|test|val|valid|validation|dev|eval|holdout)(?:_|$)")
KEPT = ("state_dict", "save", "deepcopy")


class SignForOperator(TextRule):
    """`loss =+ term`, which is `loss = +term`: what was there before is lost."""

    def read(self, source: SourceFile) -> None:
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.UnaryOp):
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
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare) or len(node.test.ops) != 1:
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
            if not is_kept or is_high == is_low or is_high != is_less:
                continue
            word, way = ("lowest", ">") if is_high else ("highest", "<")
            problem = f"{text_of(right)} follows the {word} {metric} of all: the worst state counts as the best"
            advice = f"if {text_of(left)} {way} {text_of(right)}, with {best} = {'0' if is_high else 'inf'} at first"
            self.blame("worst-state-chosen", (source, node), best, problem, advice)


class OverlappingParts(TextRule):
    """Slices of the same data, to train and to evaluate, that share rows."""

    def read(self, source: SourceFile) -> None:
        known: dict[str, list[tuple[str, ast.Slice, ast.AST]]] = {}
        for node in ast.walk(source.tree):
            for target, value in pairs_of(node):
                part = value.slice if isinstance(value, ast.Subscript) else None
                part = part.elts[0] if isinstance(part, ast.Tuple) and part.elts else part
                if isinstance(part, ast.Slice) and part.step is None and isinstance(value, ast.Subscript):
                    known.setdefault(text_of(value.value), []).append((name_of(target), part, node))
        for data, parts in known.items():
            trained = [(name, part) for name, part, _ in parts if TRAINED.search(name.lower())]
            for name, part, node in parts:
                for other, first in trained if HELD_OUT.search(name.lower()) else ():
                    rows = overlap_of(first, part)
                    if rows is None:
                        continue
                    problem = f"{name} begins at row {rows[1]} of {data}, and {other} ends at row {rows[0]}: the "
                    problem += "evaluation sees rows of training"
                    advice = f"cut both at the same place: {data}[:{rows[0]}] and {data}[{rows[0]}:]"
                    self.blame("samples-shared", (source, node), name, problem, advice)
                    return


def pairs_of(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what an assignment gives to each of its names."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            yield from zip(target.elts, value.elts, strict=True)
        else:
            yield target, value


def overlap_of(first: ast.Slice, second: ast.Slice) -> tuple[str, str] | None:
    """Return where a first part ends and a second begins, if that is before it: both alike but for one number."""
    if first.lower is not None and text_of(first.lower) != "0":
        return None
    end, begin = first.upper, second.lower
    if end is None or begin is None or (second.upper is not None and text_of(second.upper) == text_of(end)):
        return None
    texts = text_of(end), text_of(begin)
    numbers = [[float(x) for x in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)] for text in texts]
    frames = [re.sub(r"(?<![\w.])\d+(?:\.\d+)?", "#", text) for text in texts]
    if frames[0] != frames[1] or "-" in frames[0]:
        return None
    different = [(a, b) for a, b in zip(*numbers, strict=True) if a != b]
    return texts if len(different) == 1 and different[0][1] < different[0][0] else None
