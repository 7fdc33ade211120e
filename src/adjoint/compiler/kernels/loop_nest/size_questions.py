"""Questions about symbolic sizes whose answers decide how a kernel is written: it is written once for each.

A function that asks is run for every way in which its questions can be answered. What it returns then goes with the
conditions that a call must meet for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from adjoint.compiler.ir.size_terms import Quotient, Terms
from adjoint.compiler.ir.symbolic_size import SymbolicSize, is_known_less, is_symbolic_size
from adjoint.compiler.kernels.index_arithmetic import is_zero
from adjoint.compiler.llvm.builder import Builder
from adjoint.compiler.llvm.types import I64, Reg

Decision = TypeVar("Decision", bound=Hashable)


class Condition(NamedTuple):
    """A size that is greater than a number, or, if `holds` is false, is not."""

    size: int
    bound: int
    holds: bool


Conditions = tuple[Condition, ...]


class SizeQuestions:
    """The questions of one run, the first of them with answers that were given before."""

    def __init__(self, given: tuple[bool, ...] = ()) -> None:
        self._given = given
        self.asked: list[Condition] = []

    def is_greater(self, size: int, bound: int) -> bool:
        """True if a size is greater than a number: by itself, after the answers before, or as this run assumes."""
        if is_symbolic_size(size):
            size, bound = _simplify_comparison(size, bound)
        if not is_symbolic_size(size):
            return size > bound
        if is_known_less(bound, size):
            return True
        if is_known_less(size, bound + 1):
            return False
        for known in self.asked:
            if is_zero(known.size - size) and (known.bound >= bound if known.holds else known.bound <= bound):
                return known.holds
        place = len(self.asked)
        answer = self._given[place] if place < len(self._given) else True
        self.asked.append(Condition(size, bound, answer))
        return answer


def decide_for_each(decide: Callable[[SizeQuestions], Decision]) -> dict[Decision, list[Conditions]]:
    """Return what a function decides, each with the conditions under which it does: one of them holds then."""
    found: dict[Decision, list[Conditions]] = {}
    open_runs: list[tuple[bool, ...]] = [()]
    while open_runs:
        given = open_runs.pop()
        questions = SizeQuestions(given)
        decision = decide(questions)
        found.setdefault(decision, []).append(tuple(questions.asked))
        answers = tuple(condition.holds for condition in questions.asked)
        open_runs += [(*answers[:i], False) for i in range(len(given), len(answers))]
    return found


def emit_conditions(b: Builder, ways: list[Conditions]) -> Reg:
    """True (one bool) in a call where all the conditions of one of these ways hold."""
    found: Reg | None = None
    for way in ways:
        met: Reg | None = None
        for size, bound, holds in way:
            register = b.constant(size, I64)
            this = b.gt(register, bound) if holds else b.le(register, bound)
            met = this if met is None else b.logical_and(met, this)
        assert met is not None, "a decision without a question is the only one"
        found = met if found is None else b.logical_or(found, met)
    assert found is not None
    return found


def _simplify_comparison(size: Any, bound: int) -> tuple[int, int]:
    """Return a comparison of sizes without what is added to both, multiplies both or divides one of them."""
    terms = size.terms
    while terms:
        if not terms[-1][0]:
            bound -= terms[-1][1]
            terms = terms[:-1]
            continue
        (monomial, factor), *others = terms
        if others or factor < 0 or (factor == 1 and len(monomial) != 1):
            break
        bound //= factor
        terms = ((monomial, 1),)
        by = _plain_divisor(monomial[0]) if len(monomial) == 1 else 0
        if not by:
            break
        assert isinstance(monomial[0], Quotient)
        bound, terms = (bound + 1) * by - 1, monomial[0].dividend
    simpler: Any = SymbolicSize(size.relations, terms) if terms else 0
    return simpler, bound


def _plain_divisor(factor: object) -> int:
    """Return the positive number that a quotient divides by; 0 if it is none, or not by a number."""
    if not isinstance(factor, Quotient) or factor.is_rest:
        return 0
    divisor: Terms = factor.divisor
    plain = len(divisor) == 1 and not divisor[0][0] and divisor[0][1] > 0
    return divisor[0][1] if plain else 0
