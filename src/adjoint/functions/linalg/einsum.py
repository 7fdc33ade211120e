"""Einstein's summation: products summed over repeated letters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase
from typing import Any, NamedTuple

import numpy as np

from adjoint.core.op.autocast import autocast_down
from adjoint.core.runtime.explanation_slot import explain_errors
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operands, Shape
from adjoint.ops.elementwise import arithmetic
from adjoint.ops.linalg import matmul
from adjoint.ops.movement import movement
from adjoint.ops.reduction import reduction

__all__ = ["einsum"]
LETTERS = ascii_uppercase + ascii_lowercase  # in the order of the numbers that may stand for them


@explain_errors
def einsum(equation: Tensor | str, *operands: Any) -> Tensor:
    """Return the sums of products of the operands, over the letters that the result lacks.

    An operand's letters name its dimensions. `...` stands for further ones, which broadcast. Without `->`, the result
    has the letters that occur once, in alphabetical order. Operands are contracted from left to right, as batched
    matrix products. Lists may take the place of the letters: `einsum(x, [0, 1], y, [1, 2], [0, 2])`, with numbers from
    0 to 51.

    Args:
        equation: letters of the operands and of the result, such as "bij,bjk->bik".
        *operands: tensors, one by one or as a list.

    Raises: RuntimeError for letters that do not fit the dimensions or sizes of the operands.

    Example:
        >>> x = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> ad.einsum("ij,ij->i", x, x)
        tensor([ 5., 25.])
        >>> ad.einsum("ii", x)
        tensor(5.)
    """
    if isinstance(equation, Tensor):
        equation, operands = _equation_from_sublists([equation, *operands])
    if len(operands) == 2 and not (nondefault.count and mode.alters_ops):  # sizes may be symbols
        x, y = operands
        dtype = x.array.dtype
        if dtype.kind in "fc" and y.array.dtype is dtype:
            steps = _plan_pair(equation, x.array.shape, y.array.shape)
            if steps is not None:
                return _contract(steps, x, y)
    tensors = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    terms, result = _parse_equation(equation.replace(" ", ""), tuple([t.ndim for t in tensors]))
    _check_sizes(terms, [t.array.shape for t in tensors])
    acc, letters = _diagonal(tensors[0], terms[0])
    for i in range(1, len(tensors)):
        right, term = _diagonal(tensors[i], terms[i])
        acc, letters = _contract_pair(acc, letters, right, term, "".join(terms[i + 1 :]) + result)
    acc, letters = _sum_out(acc, letters, result)
    return movement.permute(acc, axes=tuple(letters.index(letter) for letter in result))


def _equation_from_sublists(given: list[Any]) -> tuple[str, Operands]:
    """Return the equation, and the operands, of operands that are each followed by their list of numbers."""
    pairs, last = len(given) // 2, len(given) % 2
    terms = [_sublist_letters(given[2 * i + 1]) for i in range(pairs)]
    result = "->" + _sublist_letters(given[-1]) if last else ""
    return ",".join(terms) + result, tuple(given[0 : 2 * pairs : 2])


def _sublist_letters(numbers: Sequence[Any]) -> str:
    """Return the letters A … Z, a … z that numbers stand for."""
    if not isinstance(numbers, (list, tuple)):
        raise TypeError(f"einsum(): expected a list of numbers behind each operand, got {type(numbers).__name__}")
    for number in numbers:
        if number is not Ellipsis and not 0 <= number < len(LETTERS):
            raise ValueError(f"einsum(): subscripts must be within the range [0, 52), but got {number}")
    return "".join("..." if number is Ellipsis else LETTERS[number] for number in numbers)


@lru_cache(256)
def _parse_equation(equation: str, ranks: tuple[int, ...]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result, with `...` spelt out in letters of its own."""
    if not ranks:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        few = "fewer" if len(terms) > len(ranks) else "more"
        raise RuntimeError(f"einsum(): {few} operands were provided than specified in the equation")
    for place, character in enumerate(equation.replace("->", "", 1).replace("...", "").replace(",", "")):
        if not (character.isascii() and character.isalpha()):
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {place} in the equation string, subscripts must be in "
                "[a-zA-Z]"
            )
    for i, term in enumerate(terms):
        if term.count("...") > 1:
            raise RuntimeError(f"einsum(): found '.' for operand {i} for which an ellipsis was already found")
    widths = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    for i, (term, width) in enumerate(zip(terms, widths, strict=True)):
        if width < 0 or (width and "..." not in term):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({ranks[i] - width}) does not match the number of "
                f"dimensions ({ranks[i]}) for operand {i}" + ("" if "..." in term else " and no ellipsis was given")
            )
    most = max((width for width, term in zip(widths, terms, strict=True) if "..." in term), default=0)
    dots = "".join(map(chr, range(0x3B1, 0x3B1 + most)))  # Greek, which no equation contains
    terms = [term.replace("...", dots[most - width :]) for term, width in zip(terms, widths, strict=True)]
    seen = "".join(terms)
    if not arrow:
        right = dots + "".join(sorted(c for c in set(seen) - set(dots) if seen.count(c) == 1))
    result = right.replace("...", dots)
    for letter in result:
        if letter not in seen:
            raise RuntimeError(
                f"einsum(): output subscript {letter} does not appear in the equation for any input operand"
            )
        if result.count(letter) > 1:
            raise RuntimeError(f"einsum(): output subscript {letter} appears more than once in the output")
    return terms, result


def _check_sizes(terms: list[str], shapes: list[tuple[int, ...]]) -> None:
    seen: dict[str, int] = {}
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        for letter, n in zip(term, shape, strict=True):
            if seen.setdefault(letter, n) == 1:
                seen[letter] = n
            elif n not in (1, seen[letter]):
                raise RuntimeError(
                    f"einsum(): subscript {letter} has size {n} for operand {i} which does not broadcast with "
                    f"previously seen size {seen[letter]}"
                )


def _diagonal(x: Tensor, letters: str) -> tuple[Tensor, str]:
    """Take the diagonal of letters that one operand repeats."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            a = letters.index(letter)
            b = letters.index(letter, a + 1)
            n = x.array.shape[a]
            eye = np.eye(n, dtype=x.array.dtype).reshape([n if d in (a, b) else 1 for d in range(x.ndim)])
            x = reduction.sum(arithmetic.mul(x, eye), axes=(b,), keepdims=False)
            letters = letters[:b] + letters[b + 1 :]
    return x, letters


def _sum_out(x: Tensor, letters: str, needed: str) -> tuple[Tensor, str]:
    """Sum over the letters that nobody needs; integers as int64."""
    gone = tuple(i for i, letter in enumerate(letters) if letter not in needed)
    if not gone:
        return x, letters
    total = reduction.sum(reduction.widen_integers(x), axes=gone, keepdims=False)
    return total, "".join(letter for letter in letters if letter in needed)


def _contract_pair(x: Tensor, a: str, y: Tensor, b: str, later: str) -> tuple[Tensor, str]:
    """Contract two operands to one batched matrix product over the letters that nobody needs later."""
    x, a = _sum_out(x, a, b + later)
    y, b = _sum_out(y, b, a + later)
    if x.array.dtype != y.array.dtype and {x.array.dtype.kind, y.array.dtype.kind} <= set("iub"):
        x, y = reduction.widen_integers(x), reduction.widen_integers(y)
    if nondefault.count and mode.autocast is not None:
        x, y = autocast_down(x), autocast_down(y)
    steps, letters = _plan_contraction(a, x.array.shape, b, y.array.shape, later)
    return _contract(steps, x, y), letters


class OperandLayout(NamedTuple):
    """The steps from an operand to its matrices, each None where it would change nothing."""

    summed: tuple[int, ...] | None
    axes: tuple[int, ...] | None
    expanded: Shape | None
    shape: Shape | None

    def apply(self, x: Tensor) -> Tensor:
        """Return the matrices of an operand."""
        if self.summed is not None:
            x = reduction.sum(x, axes=self.summed, keepdims=False)
        if self.axes is not None:
            x = movement.permute(x, axes=self.axes)
        if self.expanded is not None:
            x = movement.expand(x, shape=self.expanded)
        return x if self.shape is None else movement.reshape(x, shape=self.shape)


class Contraction(NamedTuple):
    """The steps of a product of two operands: to their matrices, and from those of the result."""

    left: OperandLayout
    right: OperandLayout
    shape: Shape | None
    axes: tuple[int, ...] | None


def _contract(steps: Contraction, x: Tensor, y: Tensor) -> Tensor:
    product = matmul.bmm(steps.left.apply(x), steps.right.apply(y))
    if steps.shape is not None:
        product = movement.reshape(product, shape=steps.shape)
    return product if steps.axes is None else movement.permute(product, axes=steps.axes)


@lru_cache(1024)
def _plan_pair(equation: str, x: Shape, y: Shape) -> Contraction | None:
    """Return the steps of an equation of two operands of these shapes; None where one repeats a letter."""
    terms, result = _parse_equation(equation.replace(" ", ""), (len(x), len(y)))
    _check_sizes(terms, [x, y])
    if any(len(set(term)) < len(term) for term in terms):
        return None
    rest, shapes, sums = [], [], []
    for term, shape, other in zip(terms, (x, y), reversed(terms), strict=True):
        gone = tuple([i for i, letter in enumerate(term) if letter not in other + result])
        sums.append(gone or None)
        rest.append("".join([letter for i, letter in enumerate(term) if i not in gone]))
        shapes.append(tuple([n for i, n in enumerate(shape) if i not in gone]))
    steps, letters = _plan_contraction(rest[0], shapes[0], rest[1], shapes[1], result)
    axes = tuple([letters.index(letter) for letter in result])
    return Contraction(
        steps.left._replace(summed=sums[0]),
        steps.right._replace(summed=sums[1]),
        steps.shape,
        None if axes == tuple(range(len(axes))) else axes,
    )


def _plan_contraction(a: str, x: Shape, b: str, y: Shape, later: str) -> tuple[Contraction, str]:
    """Return the steps of the product of operands with these letters and shapes, and the letters of its result."""
    # Every letter of a pair is one of four: of both and of the result (batch), of both alone (summed, inner), of the
    # left operand alone (rows), of the right one alone (columns).
    batch = [c for c in a if c in b and c in later]
    inner = [c for c in a if c in b and c not in later]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    sizes = dict(zip(b, y, strict=True))
    for letter, n in zip(a, x, strict=True):
        sizes[letter] = n if sizes.get(letter, 1) == 1 else sizes[letter]

    def lay_out(given: Shape, letters: str, *groups: list[str]) -> OperandLayout:
        order = [c for group in groups for c in group]
        axes = tuple([letters.index(c) for c in order])
        whole = tuple([sizes[c] for c in order])
        lead = [sizes[c] for c in groups[0]]
        shape = (*lead, *[movement.numel(tuple([sizes[c] for c in g])) for g in groups[1:]])
        return OperandLayout(
            None,
            None if axes == tuple(range(len(axes))) else axes,
            None if tuple([given[d] for d in axes]) == whole else whole,
            None if shape == whole else shape,
        )

    letters = "".join(batch + rows + columns)
    shape = tuple([sizes[c] for c in letters])
    is_whole = len(rows) == 1 == len(columns)
    left, right = lay_out(x, a, batch, rows, inner), lay_out(y, b, batch, inner, columns)
    return Contraction(left, right, None if is_whole else shape, None), letters
