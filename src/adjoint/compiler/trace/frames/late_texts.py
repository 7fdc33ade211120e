"""Texts of numbers that each call computes, and what may be done with them.

A formatted number is a stand-in in the trace. It may be joined to other texts, kept, returned, and handed to a call
outside of the step; who looks into it would see the stand-in, and is refused.
"""

from __future__ import annotations

import re
from types import BuiltinFunctionType, FunctionType

from adjoint.compiler.trace.frames.constants import ATOMS
from adjoint.compiler.trace.numbers.number_text import PrintfText, is_late_text
from adjoint.compiler.trace.numbers.symbolic_number import NumberArithmetic


class MadeText:
    """A text on the shadow stack, which is late if a late one was made since there were `before` of them."""

    __slots__ = ("before",)

    def __init__(self, before: int) -> None:
        self.before = before


class LateTexts:
    """Lets numbers show themselves as late texts while an instruction runs that makes a text."""

    def __init__(self) -> None:
        self.arithmetic: NumberArithmetic | None = None

    def show(self, made: PrintfText | None = None) -> None:
        """Let the instruction that is about to run make late texts; `made`: the one of a format with `%`."""
        if self.arithmetic is not None:
            self.arithmetic.texts.begin(made)

    def hide(self) -> None:
        """End what `show` began."""
        if self.arithmetic is not None:
            self.arithmetic.texts.are_shown = False

    def count(self) -> int:
        """The number of late texts that were made so far."""
        return 0 if self.arithmetic is None else self.arithmetic.texts.count

    def is_late(self, value: object) -> bool:
        """True for a late text, or what may be one."""
        if type(value) is MadeText:
            return self.count() > value.before
        return is_late_text(value)

    def combine(self, parts: list[object]) -> MadeText:
        """The text that is made of these and of what the instruction shows: what is unknown may hold any."""
        before = [self.count()]
        for part in parts:
            if is_late_text(part):
                before.append(-1)
            elif type(part) not in ATOMS:
                before.append(part.before if isinstance(part, MadeText) else 0)
        return MadeText(min(before))


def is_made_text(value: object) -> bool:
    """True for a text on the shadow stack."""
    return type(value) is MadeText


def makes_text(callee: object) -> bool:
    """True for calls that make a text of their arguments without a look into texts among them."""
    if callee is str or callee is repr:
        return True
    if not isinstance(callee, BuiltinFunctionType) or type(callee.__self__) is not str:
        return False
    return callee.__name__ in ("format", "join") and not is_late_text(callee.__self__)


def lays_out_fields(callee: object) -> bool:
    """True for the method `format` of a text that cuts or pads what it takes."""
    form = getattr(callee, "__self__", "")
    return isinstance(form, str) and re.search("{[^{}]*[:!]", form) is not None


def hands_texts_on(callee: object) -> bool:
    """True for exceptions, which keep what they are given."""
    return (
        isinstance(callee, type) and issubclass(callee, BaseException) and not isinstance(callee.__init__, FunctionType)
    )
