"""What every kind of kernel is: the text of one function, and how it is to be called."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from adjoint.compiler.graph import Value
from adjoint.compiler.llvm.types import Reg

if TYPE_CHECKING:
    from adjoint.compiler.fuse import Group

NAME = "KERNEL"


class Kernel:
    """A function `k(arguments, tile, thread)` to be called once for each tile, in any order and from any thread.

    Its table holds the addresses of the values in `arguments`, then, if the kernel needs `scratch` bytes, the address
    of the scratch memory, of which each thread has a piece of that size (a multiple of 64) at `thread * scratch`.
    """

    __slots__ = ("arguments", "group", "name", "scratch", "text", "tiles")

    def __init__(
        self, name: str, text: str, arguments: list[Value], group: Group, tiles: int = 1, scratch: int = 0
    ) -> None:
        self.name, self.text = name, text
        self.arguments = arguments
        self.group = group
        self.tiles, self.scratch = tiles, scratch

    def __repr__(self) -> str:
        return f"<{self.name}: {' '.join(v.op.name for v in self.group.equations)}>"


def named(text: str, kind: str) -> tuple[str, str]:
    """A name made from the text, which calls its function NAME; and the text with that name in it."""
    name = f"{kind}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return name, text.replace(f"@{NAME}(", f"@{name}(")


class Part(NamedTuple):
    """A register of finished elements: neighbours along the last dimension, from `offset` after a block's origin."""

    offset: tuple[int, ...]  # one number for each dimension of the result
    value: Reg
    mask: int | None = None  # only the first so many lanes are elements


# What a kernel does with a block of its result: `finish(origin, parts)` writes the code which computes what follows
# from the elements and stores it. `origin`: an index (i64) for each dimension of the result.
Finish = Callable[[Sequence[Reg], Sequence[Part]], None]
