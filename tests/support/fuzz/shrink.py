"""Cutting a program that fails down to a short one that fails as well."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

P = TypeVar("P")
VARIABLE = re.compile(r"\b[vas]\d+\b")
MADE = re.compile(r"(?:with [^:]*: )?((?:v\d+(?:, |,)?)+) = ")


def shrink(program: P, shorter: Callable[[P], Iterable[P]], fails: Callable[[P], bool]) -> P:
    """Return a program none of whose `shorter` ones fails: take the first that does, again and again."""
    while (found := next(filter(fails, shorter(program)), None)) is not None:
        program = found
    return program


def variables_made_by(text: str) -> set[str]:
    """Return the variables that a line gives a new meaning."""
    head = MADE.match(text)
    return set(VARIABLE.findall(head[1])) if head else set()


def replacement_for(text: str) -> Callable[[str], str] | None:
    """Return what replaces, in other lines, the one variable that a line makes by the first that it reads."""
    made = variables_made_by(text)
    read = [name for name in VARIABLE.findall(text) if name not in made]
    if len(made) != 1 or not read:
        return None
    name = re.compile(rf"\b{made.pop()}\b")
    return lambda other: name.sub(read[0], other)
