"""Edits of sequences of numbers and of indices: one more, one less, or one of another size."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from adjoint.core.dtype.dtype import bool_
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.operands import evaluate
from adjoint.diagnosis.repairs.expression import Edit, Values, parse
from adjoint.diagnosis.repairs.trial import Trial, compute

MAX_NUMBERS = 6
ALL = ast.Slice()


def change_index(node: ast.Subscript, trial: Trial) -> Iterator[Edit]:
    """Yield an index without one of its whole slices, or with one before a mask."""
    held = compute(node.value, trial.frame)
    if not isinstance(held, Tensor):
        return
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for i, part in enumerate(parts):
        rest = [*parts[:i], *parts[i + 1 :]]
        if len(parts) > held.ndim and ast.dump(part) == ast.dump(ALL) and rest:
            yield _index(node, rest)
    is_number = len(parts) == 1 and isinstance(parts[0], (ast.Name, ast.Constant)) and held.ndim > 1
    if is_number and type(compute(parts[0], trial.frame)) is int:
        yield _index(node, [ALL, *parts])  # a column of a tensor of samples
    masks = [compute(part, trial.frame) for part in parts]
    if any(isinstance(mask, Tensor) and mask.dtype == bool_ for mask in masks):
        for count in range(1, held.ndim - len(parts) + 1):
            yield _index(node, [*[ALL] * count, *parts])


def change_stored_index(node: ast.Call, trial: Trial) -> Iterator[Edit]:
    """Yield a call that stores an item, with whole slices before a mask."""
    if ast.unparse(node.func) != "setitem()" or len(node.args) != 3:
        return
    held, mask = compute(node.args[0], trial.frame), compute(node.args[1], trial.frame)
    if isinstance(held, Tensor) and isinstance(mask, Tensor) and mask.dtype == bool_:
        for count in range(1, held.ndim):
            parts = [*(["slice(None)"] * count), ast.unparse(node.args[1])]
            yield Edit(node.args[1], parse(f"({', '.join(parts)})"), is_shape=True)


def _index(node: ast.Subscript, parts: list[ast.expr]) -> Edit:
    key = parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load())
    return Edit(node, ast.Subscript(node.value, key, ast.Load()), is_shape=True)


def change_numbers(node: ast.Call, trial: Trial, values: Values) -> Iterator[Edit]:
    """Yield a call with one number more or less among several, or, of `expand`, one of the tensor's own sizes."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    tensors = [each for _, each in values if isinstance(each, Tensor)]
    listed = next((each for each in node.args if isinstance(each, (ast.Tuple, ast.List))), None)
    parts = node.args if listed is None else listed.elts
    numbers = [evaluate(each, trial.frame) for each in parts]
    if not tensors or not 1 < len(numbers) <= MAX_NUMBERS or not all(type(each) is int for each in numbers):
        return
    texts = [ast.unparse(each) for each in parts]

    def write(given: list[str]) -> Edit:
        inner = parse(f"[{', '.join(given)}]") if isinstance(listed, ast.List) else parse(f"({', '.join(given)},)")
        if listed is not None:
            return Edit(listed, inner, is_shape=True)
        return Edit(node, parse(f"{ast.unparse(node.func)}({', '.join(given)})"), is_shape=True)

    if name == "permute":
        missing = [n for n in range(tensors[0].ndim) if n not in numbers and n - tensors[0].ndim not in numbers]
        for n in missing:
            yield from (write([*texts[:i], str(n), *texts[i:]]) for i in range(len(texts), -1, -1))
    if name == "expand":
        sizes = tensors[0].shape
        changed = [-1 if size != 1 else n for size, n in zip(sizes[::-1], numbers[::-1], strict=False)]
        whole = [*texts[: len(texts) - len(changed)], *map(str, changed[::-1])]
        if whole != texts:
            yield write(whole)
    if name == "unflatten":
        size = tensors[0].shape[dim] if type(dim := compute(node.args[0], trial.frame)) is int else 0
        for i, n in enumerate(numbers):
            rest = prod(numbers) // n if n else 0
            if rest and size % rest == 0:
                yield write([*texts[:i], str(size // rest), *texts[i + 1 :]])
    if name == "pad":
        most = 2 * tensors[0].ndim
        yield from [write(texts[:most])] if len(texts) > most else []
