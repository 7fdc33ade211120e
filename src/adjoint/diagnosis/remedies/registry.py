"""Registry of remedies: each is a function of a failure, found by the words of the error."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from adjoint.diagnosis.failure import Failure

Remedy: TypeAlias = Callable[[Failure, "re.Match[str]"], "str | None"]
REMEDIES: list[tuple[re.Pattern[str], Remedy]] = []


def remedy(pattern: str) -> Callable[[Remedy], Remedy]:
    """Register a function for errors whose message has the pattern; it returns advice, or None to pass."""

    def register(function: Remedy) -> Remedy:
        REMEDIES.append((re.compile(pattern, re.DOTALL), function))
        return function

    return register


def find_remedy(failure: Failure) -> str | None:
    """Return the advice of the first remedy that knows the error; None if none does."""
    for pattern, function in REMEDIES:
        match = pattern.search(failure.message)
        advice = None if match is None else function(failure, match)
        if advice:
            return advice
    return None
