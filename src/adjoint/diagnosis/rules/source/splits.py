"""Rules on parts of the data: slices that overlap, statistics of all rows, one model for all folds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, Operand
from adjoint.diagnosis.rules.source.epochs import assigns
from adjoint.diagnosis.rules.source.text_rule import TextRule, calls_in, find_sources, name_of
from adjoint.diagnosis.source_expressions import SourceFile, parameter_names, text_of
from adjoint.diagnosis.watch.events import OptimizerStep, caller_frame
from adjoint.diagnosis.watch.facts import Facts
from adjoint.diagnosis.watch.frames import user_frames

TRAINED = re.compile(r"(?:^|_)(?:x|y)?(?:tr|train|training)(?:_|$|x|y|loader|dl|set)")
HELD_OUT = re.compile(r"(?:^|_)(?:x|y)?(?:te|test|val|valid|validation|dev|eval|holdout)(?:_|$|x|y|loader|dl|set)")
LABEL = re.compile(r"^(?:y|t|labels?|targets?)(?:_|$)|(?:_|^)(?:y|labels?|targets?)$")
FOLDS = re.compile(r"fold|kfold|kf\.split|cross_val", re.IGNORECASE)
NUMBER = r"(?<![\w.])\d+(?:\.\d+)?"
MAX_SHIFT = 0.2  # of the mean of rows, in deviations of all
MAX_ERRORS = 4  # standard errors of a mean, which few rows have by chance
MIN_ROWS = 8
JOINS = frozenset({"cat", "concat", "concatenate", "vstack", "hstack", "append"})
RESETS = frozenset({"load_state_dict", "reset_parameters", "apply", "deepcopy", "reset", "reset_weights"})


class OverlappingParts(TextRule):
    """Slices of the same data, to train and to evaluate, that share rows."""

    def read(self, source: SourceFile) -> None:
        for data, parts in find_parts(source).items():
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


@lru_cache(maxsize=1)
def find_parts(source: SourceFile) -> dict[str, list[tuple[str, ast.Slice, ast.stmt]]]:
    """Return the slices of each variable that lines give names, with the names and the lines."""
    known: dict[str, list[tuple[str, ast.Slice, ast.stmt]]] = {}
    for node in source.nodes_of(ast.Assign):
        for target, value in pairs_of(node):
            part = value.slice if isinstance(value, ast.Subscript) else None
            part = part.elts[0] if isinstance(part, ast.Tuple) and part.elts else part
            if isinstance(part, ast.Slice) and part.step is None and isinstance(value, ast.Subscript):
                known.setdefault(text_of(value.value), []).append((name_of(target), part, node))
    return known


def pairs_of(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what an assignment gives to each of its names."""
    if len(node.targets) == 1:
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
    numbers = [[float(x) for x in re.findall(NUMBER, text)] for text in texts]
    frames = [re.sub(NUMBER, "#", text) for text in texts]
    if frames[0] != frames[1] or "-" in frames[0]:
        return None
    different = [(a, b) for a, b in zip(*numbers, strict=True) if a != b]
    return texts if len(different) == 1 and different[0][1] < different[0][0] else None


class WholeStatistics(TextRule):
    """A scaler that is fitted to all rows, of which some are held out afterwards.

    A mean and a deviation that a program writes out count only where those of the rows of training are others: rows in
    random order have the same.
    """

    max_steps = 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.trained: dict[str, Array] = {}  # rows of training, by the name of the variable

    def before_step(self, step: OptimizerStep) -> None:
        names = {
            name for source in find_sources(self.facts) for each in find_parts(source).values() for name, *_ in each
        }
        for name in filter(TRAINED.search, names):
            for frame in user_frames(caller_frame()):
                value: Operand = frame.f_locals.get(name, frame.f_globals.get(name))
                array = value.array if isinstance(value, Tensor) else value
                if isinstance(array, np.ndarray) and array.dtype.kind == "f":
                    self.trained.setdefault(name, array)

    def read(self, source: SourceFile) -> None:
        parts = find_parts(source)
        for node in source.nodes_of(ast.Assign):
            for target, value in pairs_of(node):
                name = text_of(target)
                cuts = [(part, line) for part, _, line in parts.get(name, ()) if line.lineno > node.lineno]
                names = [part.lower() for part, _ in cuts]
                if not any(map(TRAINED.search, names)) or not any(map(HELD_OUT.search, names)):
                    continue
                given = value.args[:1] if isinstance(value, ast.Call) and name_of(value) == "fit_transform" else []
                is_fitted = any(text_of(each) == name for each in given)
                made = value if is_fitted else find_mean(source, value, name)
                if made is not None and (is_fitted or any(map(self._is_shifted, (part for part, _ in cuts)))):
                    problem = f"mean and deviation are those of all rows of {name}, from which {cuts[-1][0]} is cut "
                    problem += "afterwards: training knows of the rows that are held out"
                    advice = "cut first, and take both of the rows of training alone"
                    self.blame("statistics-of-all", (source, made), name, problem, advice)

    def _is_shifted(self, name: str) -> bool:
        """Return whether the rows of training, which were scaled with all others, have another mean."""
        rows = self.trained.get(name)
        if rows is None or rows.ndim == 0 or len(rows) < MIN_ROWS:
            return False
        means = np.abs(rows.reshape(len(rows), -1).mean(0))
        return bool((means > max(MAX_SHIFT, MAX_ERRORS / len(rows) ** 0.5)).any())


def find_mean(source: SourceFile, value: ast.expr, name: str) -> ast.AST | None:
    """Return the line of the mean where a variable is scaled by its own mean and a deviation."""
    is_scaled = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div)
    if not is_scaled or not isinstance(value, ast.BinOp) or not isinstance(value.left, ast.BinOp):
        return None
    if not isinstance(value.left.op, ast.Sub) or text_of(value.left.left) != name:
        return None
    mean = value.left.right
    if text_of(mean).startswith(f"{name}.mean("):
        return value
    for node in source.nodes_of(ast.Assign):
        for target, made in pairs_of(node):
            if text_of(target) == text_of(mean) and text_of(made).startswith(f"{name}.mean("):
                return node
    return None


class SharedFolds(TextRule):
    """A model that goes on from one fold to the next, which evaluates it on rows that it was trained with."""

    def read(self, source: SourceFile) -> None:
        roots = [root for root in self.facts.names.models() if root.name.isidentifier()]
        for loop in source.nodes_of(ast.For):
            trains = any(name_of(call) == "backward" for call in calls_in(*loop.body))
            has_epochs = any(isinstance(each, ast.For) for line in loop.body for each in ast.walk(line))
            head = f"{text_of(loop.target)} {text_of(loop.iter)}"
            held_out = [each for line in loop.body for each in ast.walk(line) if isinstance(each, ast.Subscript)]
            is_fold = FOLDS.search(head) or any(
                FOLDS.search(text_of(each.value)) and text_of(each.slice) == text_of(loop.target) for each in held_out
            )
            if not trains or not has_epochs or not is_fold:
                continue
            if any(name_of(call) in RESETS for call in calls_in(*loop.body)):
                continue
            for root in roots:
                uses = [each for line in loop.body for each in ast.walk(line) if isinstance(each, ast.Name)]
                if any(each.id == root.name for each in uses) and not assigns(loop.body, root.name):
                    made = source.assignments_in(source.scope_of(loop)).get(root.name, [loop])[0]
                    problem = (
                        f"{root.name} is made once for all folds: from the second one on, it was trained with the "
                    )
                    problem += "rows that evaluate it"
                    advice = f"make {root.name} and its optimizer in each turn of the loop over the folds"
                    self.blame("model-shared-by-folds", (source, made), root.name, problem, advice)
                    return


class ExchangedFolds(TextRule):
    """Rows of folds that train, which are fewer than those that are held out: both have each other's names."""

    max_steps = 1

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.sizes: dict[str, int] = {}  # of the variables of rows

    def before_step(self, step: OptimizerStep) -> None:
        is_folded = any(b"fold" in b"\n".join(source.lines).lower() for source in find_sources(self.facts))
        for frame in user_frames(caller_frame()) if is_folded else ():
            for name, value in (*frame.f_globals.items(), *frame.f_locals.items()):
                if TRAINED.search(name.lower()) or HELD_OUT.search(name.lower()):
                    self.sizes.setdefault(name, len(value) if hasattr(value, "__len__") else 0)

    def read(self, source: SourceFile) -> None:
        for loop in source.nodes_of(ast.For):
            names = [each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)]
            trained = next((name for name in names if TRAINED.search(name.lower())), "")
            held_out = next((name for name in names if HELD_OUT.search(name.lower())), "")
            sizes = self.sizes.get(trained, 0), self.sizes.get(held_out, 0)
            if FOLDS.search(text_of(loop.iter)) and 0 < sizes[0] < sizes[1]:
                problem = (
                    f"{trained} has {sizes[0]} rows, and {held_out} {sizes[1]}: a fold is held out, and all others "
                )
                problem += "train"
                order = sorted(names, key=lambda name: {trained: 0, held_out: 1}.get(name, -1))
                self.blame("parts-exchanged", (source, loop), trained, problem, f"for {', '.join(order)} in …")


class UnpackedOrder(TextRule):
    """Parts that a function returns in one order, and that a line gives names in another."""

    def read(self, source: SourceFile) -> None:
        functions = {node.name: node for node in source.nodes_of(ast.FunctionDef)}
        for node in source.nodes_of(ast.Assign):
            for target, value in pairs_of(node):
                if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Call):
                    continue
                given = returned_names(functions.get(name_of(value)), value)
                taken = [name_of(each) for each in target.elts]
                for i, kind in enumerate((LABEL, TRAINED)):
                    one, other = ([bool(kind.search(name.lower())) for name in names] for names in (given, taken))
                    if one != other and len(one) == len(other) and sum(one) == sum(other):
                        what = "a label" if i == 0 else "of training"
                        wrong = next(name for name, flag, want in zip(taken, other, one, strict=True) if flag != want)
                        problem = f"{name_of(value)} gives {', '.join(given)}, in this order: {wrong} is "
                        problem += f"{'not ' * other[taken.index(wrong)]}{what}"
                        self.blame("parts-exchanged", (source, node), wrong, problem, f"{', '.join(given)} = …")
                        return


def returned_names(function: ast.FunctionDef | None, call: ast.Call) -> list[str]:
    """Return the names of what a function of the file returns, or a known one."""
    if function is None and name_of(call) == "train_test_split":
        names = [name_of(each) for each in call.args]
        return [f"{name}_{part}" for name in names for part in ("train", "test")]
    returns = [each for each in ast.walk(function) if isinstance(each, ast.Return)] if function is not None else []
    values = [each.value.elts if isinstance(each.value, ast.Tuple) else [] for each in returns]
    return [name_of(each) for each in values[0]] if len(values) == 1 else []


def is_label(name: str) -> bool:
    """Return whether a name says that it holds labels."""
    return LABEL.search(name) is not None


class OwnFit(TextRule):
    """A vocabulary, or a scaler, that held-out rows have of their own."""

    def read(self, source: SourceFile) -> None:
        fits: dict[str, list[tuple[str, ast.AST]]] = {}  # what is fitted how, with the names of the data
        for made in source.nodes_of(ast.DictComp):
            if name_of(made.generators[0].iter) == "enumerate":
                names = {each.id for each in ast.walk(made) if isinstance(each, ast.Name)}
                self._note(fits, "enumerate", names, made)
                scope = source.scope_of(made)
                for i, name in enumerate(parameter_names(scope) if isinstance(scope, ast.FunctionDef) else []):
                    calls = source.calls_of(scope.name) if isinstance(scope, ast.FunctionDef) and name in names else []
                    self._note(fits, "enumerate", {name_of(call.args[i]) for call in calls if len(call.args) > i}, made)
        for call in source.calls_of("fit_transform", "fit"):
            owner = text_of(call.func).rpartition(".")[0]
            if call.args:
                self._note(fits, owner if owner.isidentifier() else "fit", {name_of(call.args[0])}, call)
        for line in source.nodes_of(ast.Assign):
            for target, value in pairs_of(line):
                if find_mean(source, value, text_of(target)) is not None:
                    self._note(fits, "mean", {text_of(target)}, line)
        for known in fits.values():
            trained = [name for name, _ in known if TRAINED.search(name.lower())]
            for name, node in known:
                if trained and HELD_OUT.search(name.lower()) and not TRAINED.search(name.lower()):
                    problem = (
                        f"{name} is numbered or scaled by itself, and {trained[0]} by itself: the same value means "
                    )
                    problem += "something else in both"
                    advice = f"fit with {trained[0]} alone, and use that for both"
                    self.blame("fitted-on-held-out", (source, node), name, problem, advice)

    def _note(self, fits: dict[str, list[tuple[str, ast.AST]]], key: str, names: set[str], node: ast.AST) -> None:
        for name in sorted(names):
            if TRAINED.search(name.lower()) or HELD_OUT.search(name.lower()):
                fits.setdefault(key, []).append((name, node))


class DoubledRows(TextRule):
    """Rows that are repeated before some of them are held out: both parts have them."""

    def read(self, source: SourceFile) -> None:
        parts = find_parts(source)
        for node in source.nodes_of(ast.Assign):
            for target, value in pairs_of(node):
                name = text_of(target)
                if not isinstance(value, ast.Call) or name_of(value) not in JOINS or not value.args:
                    continue
                joined = value.args[0].elts if isinstance(value.args[0], (ast.List, ast.Tuple)) else []
                texts = [text_of(each) for each in joined]
                splits = source.calls_of("random_split", "train_test_split")
                later = [call for call in splits if call.lineno > node.lineno]
                is_split = any(name in {text_of(each) for each in ast.walk(call)} for call in later)
                others = [each for each in joined if text_of(each) != name and self._is_part_of(source, each, name)]
                cuts = [part for part, _, line in parts.get(name, ()) if line.lineno > node.lineno]
                is_cut = any(TRAINED.search(part.lower()) for part in cuts) and any(
                    HELD_OUT.search(part.lower()) for part in cuts
                )
                if name in texts and others and (is_cut or is_split):
                    problem = (
                        f"{text_of(others[0])} are rows of {name}, which are joined to it again, and some are held out "
                    )
                    problem += "afterwards: the evaluation sees rows of training"
                    self.blame(
                        "rows-doubled", (source, node), name, problem, "hold out first, and repeat rows of training"
                    )
                    return

    def _is_part_of(self, source: SourceFile, node: ast.expr, name: str) -> bool:
        if isinstance(node, ast.Subscript):
            return text_of(node.value) == name
        made = source.assignments_in(source.scope_of(node)).get(text_of(node), [])
        values = [each.value for each in made if isinstance(each, ast.Assign)]
        return any(isinstance(each, ast.Subscript) and text_of(each.value) == name for each in values)
