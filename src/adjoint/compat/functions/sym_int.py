"""Arithmetic of sizes, which PyTorch's tracer may not know yet: here they are Python numbers."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from adjoint.compat.module_alias import MissingClass

__all__ = [
    "SymBool", "SymFloat", "SymInt", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt",
    "sym_sum",
]  # fmt: skip

_ABSENT = {
    "__module__": "adjoint",
    "__slots__": (),
    "reason": "sizes are Python's numbers",
    "__doc__": "Nothing is an instance: sizes are Python's numbers.",
}
SymBool, SymFloat, SymInt = (MissingClass(name, (), dict(_ABSENT)) for name in ("SymBool", "SymFloat", "SymInt"))


class GuardOnDataDependentSymNode(RuntimeError):
    """Error of a decision by a size that is not known yet: all are known here."""


def guard_or_false(a: object) -> bool:
    """Return a fact about sizes, all of which are known."""
    return bool(a)


guard_or_true = guard_size_oblivious = statically_known_true = guard_or_false


def free_symbols(val: object) -> set[object]:
    """Return the sizes in a value that are not known: none."""
    return set()


free_unbacked_symbols = free_symbols


def has_free_symbols(val: object) -> bool:
    """Return False: all sizes are known."""
    return False


def sym_int(a: Any) -> int:
    """a without its fraction."""
    return builtins.int(a)


def sym_float(a: Any) -> float:
    """a as a float."""
    return builtins.float(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger of a and b, a float if one is."""
    return _promote_result(max(a, b), a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of a and b, a float if one is."""
    return _promote_result(min(a, b), a, b)


def sym_not(a: Any) -> bool:
    """not a."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """t if b, else f."""
    return t if b else f


def sym_sqrt(a: Any) -> float:
    """√a."""
    return math.sqrt(a)


def sym_sum(args: Sequence[Any]) -> Any:
    """The sum of the numbers."""
    return sum(args)


def _promote_result(chosen: Any, a: Any, b: Any) -> Any:
    return float(chosen) if isinstance(a, float) or isinstance(b, float) else chosen
