"""Questions about sizes: what is known is not asked, and each answer leads to one way of writing a kernel."""

from __future__ import annotations

from typing import cast

from adjoint.compiler.ir.symbolic_size import SizeRelations
from adjoint.compiler.kernels.loop_nest.size_questions import SizeQuestions, decide_for_each


def test_what_is_known_is_not_asked() -> None:
    relations = SizeRelations()
    ask, n = SizeQuestions(), cast("int", relations.add_symbol(57))
    assert ask.is_greater(n, 1)
    assert not ask.is_greater(3, 3)
    assert not ask.is_greater(n % 16, 15)
    assert ask.is_greater(784 * n, 1000)
    assert ask.asked == []
    assert relations.guards == {}


def test_equal_questions_are_asked_once() -> None:
    ask, n = SizeQuestions(), cast("int", SizeRelations().add_symbol(57))
    assert ask.is_greater(n, 128)
    assert ask.is_greater(n, 100)
    assert ask.is_greater(-(-n // 8), 16)  # 8 · 16 = 128
    assert ask.is_greater(3 * n + 1, 385)
    assert [(condition.bound, condition.holds) for condition in ask.asked] == [(128, True)]


def test_there_is_a_decision_for_each_answer() -> None:
    n = cast("int", SizeRelations().add_symbol(57))

    def decide(ask: SizeQuestions) -> str:
        if ask.is_greater(n, 100):
            return "long"
        return "even" if not ask.is_greater(n % 2, 0) else "short" if ask.is_greater(n, 10) else "long"

    found = decide_for_each(decide)
    assert set(found) == {"long", "even", "short"}
    assert len(found["long"]) == 2
    for size in range(2, 200):
        met = [
            decision
            for decision, ways in found.items()
            for way in ways
            if all((eval(repr(c.size), {"s0": size}) > c.bound) is c.holds for c in way)
        ]
        assert met == ["long" if size > 100 or size in (3, 5, 7, 9) else "short" if size % 2 else "even"]
