"""Rules on datasets: a label of another sample, and pictures that are turned without what belongs to them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.rules.source.text_rule import TextRule, calls_in, name_of
from adjoint.diagnosis.source_expressions import SourceFile, text_of
from adjoint.diagnosis.watch.facts import Facts, is_array

TURNS = re.compile(r"^(?:random_?)?(?:flip|hflip|vflip|fliplr|flipud|rot90|rotate|roll|crop|translate|affine)")
SEEDS = frozenset({"RandomState", "default_rng", "seed", "manual_seed", "Random"})
POINTS = re.compile(r"(?:^|_)(?:key)?(?:points?|landmarks?|box(?:es)?|bbox(?:es)?|joints?|coords?|kpts?)(?:_|$)")
MIN_SIDE = 4  # pixels


def item_functions(source: SourceFile) -> Iterator[ast.FunctionDef]:
    """Yield the methods `__getitem__` of a file."""
    for node in source.nodes_of(ast.FunctionDef):
        if node.name == "__getitem__" and len(node.args.args) == 2:
            yield node


class NeighbourLabel(TextRule):
    """A dataset that gives a sample with the label of the one before."""

    def read(self, source: SourceFile) -> None:
        for function in item_functions(source):
            index = function.args.args[1].arg
            plain: set[str] = set()
            moved: list[ast.Subscript] = []
            for node in ast.walk(function):
                if not isinstance(node, ast.Subscript):
                    continue
                part = node.slice
                if isinstance(part, ast.Name) and part.id == index:
                    plain.add(text_of(node.value))
                is_moved = isinstance(part, ast.BinOp) and isinstance(part.op, ast.Sub) and text_of(part.right) == "1"
                if is_moved and isinstance(part, ast.BinOp) and text_of(part.left) == index:
                    moved.append(node)
            for node in moved:
                name = text_of(node.value)
                if plain and name not in plain:
                    problem = f"{text_of(node)} goes with {min(plain)}[{index}]: each sample gets what belongs to the "
                    problem += "one before, the first that of the last"
                    self.blame("samples-misaligned", (source, node), name, problem, f"{name}[{index}]")


class OtherLabel(TextRule):
    """A dataset that gives one sample with the label of another: both are read, by different indices."""

    def read(self, source: SourceFile) -> None:
        for function in item_functions(source):
            results = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
            for pair in (x.elts for x in results if isinstance(x, ast.Tuple) and len(x.elts) == 2):
                parts = [x for x in pair if isinstance(x, ast.Subscript) and isinstance(x.slice, ast.Name)]
                names = [text_of(x.slice) for x in parts]
                owners = {text_of(x.value) for x in parts}
                if len(parts) == 2 and len(owners) == 2 and names[0] != names[1]:
                    problem = f"{text_of(parts[0])} goes with {text_of(parts[1])}: sample and label have different "
                    problem += "indices"
                    advice = f"{text_of(parts[1].value)}[{names[0]}]"
                    self.blame("samples-misaligned", (source, parts[0]), names[0], problem, advice)


class SeededSamples(TextRule):
    """A dataset that seeds a generator anew for each sample: all of them get the same random numbers."""

    def read(self, source: SourceFile) -> None:
        for function in item_functions(source):
            for call in calls_in(*function.body):
                given = call.args[0] if len(call.args) == 1 and name_of(call) in SEEDS else None
                if isinstance(given, ast.Constant) and given.value is not None:
                    problem = f"{text_of(call)} runs for each sample: all of them get the same random numbers"
                    advice = "make the generator once, in __init__, or seed it with the index"
                    self.blame("random-numbers-repeat", (source, call), name_of(call), problem, advice)


class UnturnedMask(TextRule):
    """Pictures that a dataset flips or crops, and masks that it gives as they were."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.is_pair = False  # a loader gives pictures, and something with as many pixels

    def batch_is_given(self, batch: Operand) -> None:
        """See the batch that a loader gives."""
        if self.is_pair or not isinstance(batch, (tuple, list)) or len(batch) < 2:
            return
        one, other = batch[:2]
        if isinstance(one, Tensor) and isinstance(other, Tensor) and is_array(one) and is_array(other):
            sides = one.array.shape[-2:]
            is_image = one.array.ndim >= 3 and min(sides) >= MIN_SIDE
            self.is_pair = is_image and other.array.ndim >= 3 and other.array.shape[-2:] == sides

    def read(self, source: SourceFile) -> None:
        for function in item_functions(source):
            results = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
            pair = next((x.elts[:2] for x in results if isinstance(x, ast.Tuple) and len(x.elts) >= 2), None)
            names = [owner_of(x) for x in pair or ()]
            if len(names) != 2 or not all(names) or not (self.is_pair or POINTS.search(names[1])):
                continue
            image, mask = names
            turned = {image: list(_turns(function, image)), mask: list(_turns(function, mask))}
            if not self.is_pair and _is_written(function, mask):
                continue  # points are moved by sums and products
            for one, other in ((image, mask), (mask, image)):
                if turned[one] and not turned[other] and not shares_call(function, image, mask):
                    node, what = turned[one][0]
                    problem = f"{what} turns {one} and not {other}: their places no longer belong together"
                    self.blame("mask-not-turned", (source, node), one, problem, f"the same {what} of {other}")


def _turns(function: ast.FunctionDef, name: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield the statements that give a name a turned or cropped version of itself, and what turns it."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or name not in _names(node.targets):
            continue
        for call in calls_in(node.value):
            if TURNS.match(name_of(call).lower()) and name in _names([call]):
                yield node, name_of(call)
        for each in ast.walk(node.value):
            is_reversed = isinstance(each, ast.Slice) and each.step is not None and text_of(each.step) == "-1"
            if is_reversed and name in _names([node.value]):
                yield node, "[::-1]"


def owner_of(node: ast.expr) -> str:
    """Return the variable of which an expression takes a method or a part."""
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_written(function: ast.FunctionDef, name: str) -> bool:
    """Return whether a function changes a variable after it has got a value, in place or by a new one."""
    targets = [node.target for node in ast.walk(function) if isinstance(node, ast.AugAssign)]
    stores = [target for node in ast.walk(function) if isinstance(node, ast.Assign) for target in node.targets]
    again = [node for node in stores if isinstance(node, ast.Name) and node.id == name]
    parts = [node for node in (*targets, *stores) if not isinstance(node, ast.Tuple) and owner_of(node) == name]
    return len(parts) > min(len(again), 1)


def _names(nodes: list[ast.expr] | list[ast.Call]) -> set[str]:
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def shares_call(function: ast.FunctionDef, image: str, mask: str) -> bool:
    """Return whether a call gets both, which may turn them together."""
    return any({image, mask} <= _names([call]) for call in calls_in(function))
