"""A kernel's text that is written only when it is read: what it is made from tells the objects of equal ones before.

Writing a kernel takes as long as a hundred of its keys. The key is of all that decides the text: the plan, the ops,
the target, and the source files of this package, so that a kernel written otherwise is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING

from adjoint.compiler.cache.hashing import digest
from adjoint.compiler.cache.source_fingerprint import source_fingerprint
from adjoint.compiler.ir.symbolic_size import SYMBOL_NAME
from adjoint.compiler.llvm.jit.target import Target
from adjoint.core.graph.source_location import PACKAGE

if TYPE_CHECKING:
    from adjoint.core.op.op import Op

NAME_PLACEHOLDER = "KERNEL"


class KernelText:
    """A module as LLVM assembly, by `str`; `key` is the same for equal ones in every process."""

    __slots__ = ("_text", "_write", "key")

    def __init__(self, key: str, write: Callable[[], str]) -> None:
        self.key = key
        self._write = write
        self._text = ""

    def __str__(self) -> str:
        self._text = self._text or self._write()
        return self._text


KernelMemo = dict[Hashable, tuple[str, KernelText | str]]  # names and modules for one target, by what decides them


def name_by_digest(text: str, kind: str) -> tuple[str, str]:
    """A name made from the text, which calls its function NAME; and the text with that name in it."""
    name = f"{kind}_{digest(text)[:16]}"
    return name, text.replace(f"@{NAME_PLACEHOLDER}(", f"@{name}(")


def make_kernel_text(
    kind: str, structure: Hashable, ops: Iterable[Op], target: Target, write: Callable[[], str]
) -> tuple[str, KernelText | str]:
    """A kernel's name and its module, which `write` makes of a `structure` and `ops`, calling its function NAME.

    `structure`: tuples, numbers and words, in which values are told by their places. A user's op has no name that
    another process could rely upon: with one among `ops`, the text is its own key.
    """
    declared = [_fingerprint_op(op) for op in ops]
    content = repr(structure)
    # writing a text with symbols may rely on guards, which each program needs
    if None in declared or " at 0x" in content or SYMBOL_NAME.search(content):
        return name_by_digest(write(), kind)
    parts = (source_fingerprint(), target.fingerprint(), kind, content, *declared)
    key = digest("\0".join(map(str, parts)))
    name = f"{kind}_{key[:16]}"
    return name, KernelText(key, lambda: write().replace(f"@{NAME_PLACEHOLDER}(", f"@{name}("))


@cache
def _fingerprint_op(op: Op) -> str | None:
    """Return the place in this package where an op is declared; None for a user's op."""
    functions = [f for f in (op.evaluate, op.scalar) if isinstance(f, FunctionType)]
    if not op.evaluate.__module__.startswith("adjoint.") or any(
        not f.__code__.co_filename.startswith(PACKAGE) for f in functions
    ):
        return None
    lines = [f.__code__.co_firstlineno for f in functions]
    return f"{op.evaluate.__module__} {op.name} {op.scalar if isinstance(op.scalar, str) else ''} {lines}"
